package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/number"
)

var windowEnded = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// of is the verdict of two windows of 10 s with the load of a cause.
func of(cause diagnosis.Cause, load float64) *Verdict {
	var judge diagnosis.Judge
	w := &diagnosis.Window{At: windowEnded, Length: 10 * time.Second, Processors: 4, CPUs: 4, OutboundWait: time.Second}
	w.Load[cause] = number.Known(load)
	judge.Next(w, w.Length)
	return &Verdict{Outcome: judge.Next(w, w.Length)}
}

func TestSentenceNamesTheServerAndTheLine(t *testing.T) {
	v := of(diagnosis.Downstream, 20)
	v.Where = "90 % at shop.buy (shop.go:7)"
	assert.Contains(t, v.Summary(windowEnded, nil), "90 % at shop.buy")
	v.Peers = []inflight.Waited{{Name: "bank:443", Waiting: 17.25, Wait: 1500 * time.Millisecond}, {Name: "mail:25", Waiting: 1}}
	assert.Contains(t, v.Summary(windowEnded, nil), "17.2 of them for bank:443, 1.5s each; 90 % at shop.buy (shop.go:7)")
	v.Where = ""
	assert.Contains(t, v.Summary(windowEnded, nil), "17.2 of them for bank:443, 1.5s each")
	v.Peers[0].Name = "" // a request without a host
	assert.NotContains(t, v.Summary(windowEnded, nil), "of them for")
}

func TestServersAreNamedWhereTheyAreWaitedForAlone(t *testing.T) {
	v := of(diagnosis.Lock, 50)
	v.Peers = []inflight.Waited{{Name: "bank:443", Waiting: 17}}
	assert.NotContains(t, v.Summary(windowEnded, nil), "bank")
}

func TestSentenceOfNoneNamesWorkThatIsOld(t *testing.T) {
	none, lock := of(diagnosis.Lock, 0), of(diagnosis.Lock, 50)
	for _, test := range []struct {
		v    *Verdict
		work *inflight.Named
		want string
	}{
		{none, &inflight.Named{Kind: "rollout", Age: oldAge}, "; the oldest work in flight is a rollout, for 30s"},
		{none, &inflight.Named{Kind: "request", Name: "/buy", Age: time.Hour}, "; the oldest work in flight is a request on /buy, for 1h0m0s"},
		{none, &inflight.Named{Kind: "rollout", Age: oldAge - 1}, ""},
		{none, nil, ""},
		{lock, &inflight.Named{Kind: "rollout", Age: time.Hour}, ""},
	} {
		summary := test.v.Summary(windowEnded, test.work)
		if test.want == "" {
			assert.NotContains(t, summary, "the oldest work")
		} else {
			assert.Contains(t, summary, test.want)
		}
	}
}

func TestSentenceSaysHowOldItIs(t *testing.T) {
	v := of(diagnosis.Lock, 50)
	assert.NotContains(t, v.Summary(windowEnded.Add(20*time.Second), nil), "ago")
	assert.Regexp(t, "^as of 21s ago: lock: ", v.Summary(windowEnded.Add(21*time.Second), nil))
}
