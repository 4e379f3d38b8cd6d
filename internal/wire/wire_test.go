package wire

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecondsHaveTheDigitsOfTheirNanoseconds(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"0":                     0,
		"2":                     2 * time.Second,
		"1.5":                   1500 * time.Millisecond,
		"0.000000001":           1,
		"-0.25":                 -250 * time.Millisecond,
		"-3.000000001":          -3*time.Second - 1,
		"9223372036.854775807":  math.MaxInt64, // a float64 would end in …776
		"-9223372036.854775808": math.MinInt64,
	} {
		written, err := json.Marshal(Seconds(d))
		require.NoError(t, err, text)
		assert.Equal(t, text, string(written))
		var read Seconds
		require.NoError(t, json.Unmarshal(written, &read), text)
		assert.Equal(t, d, time.Duration(read))
	}
}

func TestSecondsReadWhatOthersWrite(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1.50":                   1500 * time.Millisecond,
		"1e3":                    1000 * time.Second,
		"1.5E-3":                 1500 * time.Microsecond,
		"0.10000000000000000555": 100 * time.Millisecond,
		"0.0000000004":           0,
		"null":                   7, // as it was
	} {
		read := Seconds(7)
		require.NoError(t, json.Unmarshal([]byte(text), &read), text)
		assert.Equal(t, want, time.Duration(read), text)
	}
}

func TestWhatFitsNoDurationIsRefusedAndChangesNothing(t *testing.T) {
	for _, text := range []string{"9223372036.854775808", "-9223372037", "1e300", `"1"`, "true", "{}"} {
		read := Seconds(7)
		assert.Error(t, json.Unmarshal([]byte(text), &read), text)
		assert.Equal(t, Seconds(7), read, text)
	}
}

func TestEmptyListsGoThereAndBack(t *testing.T) {
	assert.Equal(t, []int{}, NotNull[int](nil))
	assert.Equal(t, []int{1}, NotNull([]int{1}))
	assert.Nil(t, NotEmpty([]int{}))
	assert.Equal(t, []int{1}, NotEmpty([]int{1}))
}
