package env_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/env"
)

func TestGymComesBeforeLens(t *testing.T) {
	for _, test := range []struct {
		name      string
		gym, lens string
		want      env.Value
	}{
		{"neither", "", "", env.Value{Name: "NEMO_GYM_OTEL_RUN_ID"}},
		{"gym", "a", "", env.Value{Name: "NEMO_GYM_OTEL_RUN_ID", Text: "a"}},
		{"lens", "", "b", env.Value{Name: "NEMO_LENS_RUN_ID", Text: "b"}},
		{"both", "a", "b", env.Value{Name: "NEMO_GYM_OTEL_RUN_ID", Text: "a"}},
		{"blank gym", " \t", "b", env.Value{Name: "NEMO_LENS_RUN_ID", Text: "b"}},
		{"blank both", " ", "\n", env.Value{Name: "NEMO_GYM_OTEL_RUN_ID"}},
		{"white space around", "  a b\t", "", env.Value{Name: "NEMO_GYM_OTEL_RUN_ID", Text: "a b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("NEMO_GYM_OTEL_RUN_ID", test.gym)
			t.Setenv("NEMO_LENS_RUN_ID", test.lens)
			value := env.Gym("RUN_ID")
			assert.Equal(t, test.want, value)
			assert.Equal(t, test.want.Text != "", value.Set())
		})
	}
}

func TestStandardTakesTheExactName(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", " checkout ")
	assert.Equal(t, env.Value{Name: "OTEL_SERVICE_NAME", Text: "checkout"}, env.Standard("OTEL_SERVICE_NAME"))
}

func TestBool(t *testing.T) {
	for _, text := range []string{"1", "true", "yes", "on", "TRUE", "Yes", "oN"} {
		on, err := env.Value{Name: "V", Text: text}.Bool(false)
		assert.NoError(t, err, text)
		assert.True(t, on, text)
	}
	for _, text := range []string{"0", "false", "no", "off", "FALSE", "No", "oFF"} {
		on, err := env.Value{Name: "V", Text: text}.Bool(true)
		assert.NoError(t, err, text)
		assert.False(t, on, text)
	}
	for _, text := range []string{"2", "t", "enabled", "tru e", "-1", "NaN"} {
		for _, unset := range []bool{true, false} {
			on, err := env.Value{Name: "V", Text: text}.Bool(unset)
			assert.ErrorContains(t, err, `V is "`+text+`"`)
			assert.Equal(t, unset, on, text)
		}
	}
	for _, unset := range []bool{true, false} {
		on, err := env.Value{Name: "V"}.Bool(unset)
		assert.NoError(t, err)
		assert.Equal(t, unset, on)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":       42 * time.Second,
		"0.1":    100 * time.Millisecond,
		"0.001":  time.Millisecond,
		"3600":   time.Hour,
		"1e-2":   10 * time.Millisecond,
		"+2.5":   2500 * time.Millisecond,
		".25":    250 * time.Millisecond,
		"0.0015": 1500 * time.Microsecond,
	} {
		got, err := env.Value{Name: "V", Text: text}.Seconds(time.Millisecond, time.Hour, 42*time.Second)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"0", "-0", "-1", "abc", "NaN", "nan", "Inf", "+Inf", "-inf", "infinity", "1e400", "1e-400",
		"0.0009", "3600.1", "0x1p-4", "0X1P-4", "1_0", "5s", "1,5", "9223372037", "1 2",
	} {
		got, err := env.Value{Name: "V", Text: text}.Seconds(time.Millisecond, time.Hour, 42*time.Second)
		assert.EqualError(t, err, `V is "`+text+`", want seconds from 0.001 to 3600`)
		assert.Equal(t, 42*time.Second, got, text)
	}
}

func TestMilliseconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":              10 * time.Second,
		"1":             time.Millisecond,
		"100":           100 * time.Millisecond,
		"+60000":        time.Minute,
		"9223372036854": 9223372036854 * time.Millisecond,
	} {
		got, err := env.Value{Name: "V", Text: text}.Milliseconds(10 * time.Second)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"0", "-1", "5s", "1.5", "abc", "NaN", "1e3", "0x10", "9223372036855", "99999999999999999999"} {
		got, err := env.Value{Name: "V", Text: text}.Milliseconds(10 * time.Second)
		assert.EqualError(t, err, `V is "`+text+`", want whole milliseconds above 0`)
		assert.Equal(t, 10*time.Second, got, text)
	}
}

func TestUnusableValueIsQuotedAndCut(t *testing.T) {
	_, err := env.Value{Name: "V", Text: "a\nlevel=ERROR \x1b[31m\xff"}.Bool(false)
	require.ErrorContains(t, err, `V is "a\nlevel=ERROR \x1b[31m\xff", want`)

	_, err = env.Value{Name: "V", Text: strings.Repeat("é", 100)}.Bool(false)
	require.ErrorContains(t, err, `"`+strings.Repeat("é", 50)+`…"`)

	_, err = env.Value{Name: "V", Text: "a" + strings.Repeat("é", 100)}.Bool(false)
	require.ErrorContains(t, err, `"a`+strings.Repeat("é", 49)+`…"`) // not half of the fiftieth
}

func FuzzBool(f *testing.F) {
	for _, text := range []string{"1", "Yes", "off", "", "maybe", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		forTrue, errTrue := env.Value{Name: "V", Text: text}.Bool(true)
		forFalse, errFalse := env.Value{Name: "V", Text: text}.Bool(false)
		if usable := errTrue == nil && text != ""; usable == (forTrue != forFalse) {
			t.Errorf("Bool of %q: %v and %v beside %v: usable values ignore the default, others give it", text, forTrue, forFalse, errTrue)
		}
		checkError(t, errTrue)
		checkError(t, errFalse)
	})
}

func FuzzSeconds(f *testing.F) {
	for _, text := range []string{"0.1", "3600", "1e-3", "NaN", "-Inf", "0x1p-4", "1e309", "", "\xff"} {
		f.Add(text, int64(time.Millisecond), int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, text string, least, most int64) {
		if least <= 0 || most < least || most > math.MaxInt64/2 {
			t.Skip("not a range that a setting has")
		}
		const unset = -1
		got, err := env.Value{Name: "V", Text: text}.Seconds(time.Duration(least), time.Duration(most), unset)
		if usable := err == nil && text != ""; usable && (int64(got) < least || int64(got) > most) {
			t.Errorf("Seconds of %q gave %d, outside %d to %d", text, got, least, most)
		} else if !usable && got != unset {
			t.Errorf("Seconds of %q gave %d beside %v, want the default", text, got, err)
		}
		checkError(t, err)
	})
}

func checkError(t *testing.T, err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, "V is ") || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b") || len(text) > 600 {
		t.Errorf("error %q does not name the variable in one bounded line", text)
	}
}
