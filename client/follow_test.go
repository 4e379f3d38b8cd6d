package client_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

func follow(t *testing.T, page string, options ...client.Option) client.Chain {
	t.Helper()
	chain, err := client.Follow(t.Context(), page, append([]client.Option{client.WithTimeout(time.Second)}, options...)...)
	require.NoError(t, err)
	return chain
}

func TestFollowFindsTheLine(t *testing.T) {
	store := refusing(t)
	agent := diagnosis(observer.CauseWait, "11.8 of 12 requests in flight wait in database/sql.(*DB).conn, called at store.go:88")
	agent.Sites = []observer.Site{{Kind: "wait", Function: "main.load", Location: "store.go:88", In: "database/sql.(*DB).conn", Load: 11.8, Share: 0.98}}
	agent.Peers = []observer.Peer{{Host: store, Waiting: 1}}
	agentPage := serve(t, "agent", 4720, agent)
	driver := serve(t, "driver", 4711, downstream(agentPage.host()))

	chain := follow(t, driver.URL)
	require.Len(t, chain.Links, 2, "a wait for the own pool is not followed")
	assert.Equal(t, []client.Limit{{Link: 1, Cause: observer.CauseWait, Share: 1}}, chain.Limits)
	assert.Equal(t, "The stack is limited by agent (pid 4720): wait in database/sql.(*DB).conn, called at store.go:88.", chain.Summary)

	// Of a read from the network the other end is asked; where nobody answers, the
	// line is still the better answer.
	agent.Sites[0].In = "net.(*conn).Read"
	agentPage.say(t, "agent", 4720, agent)
	chain = follow(t, driver.URL)
	require.Len(t, chain.Links, 3)
	assert.ErrorContains(t, chain.Links[2].Err, "refused")
	assert.Equal(t, "The stack is limited by agent (pid 4720): wait in net.(*conn).Read, called at store.go:88.", chain.Summary)

	agent.Peers[0].Host = serve(t, "store", 9, locked()).host()
	agentPage.say(t, "agent", 4720, agent)
	assert.Equal(t, "The stack is limited by store (pid 9): lock at store.(*Cache).Put (store/cache.go:42).", follow(t, driver.URL).Summary)
}

func TestTheFirstProcessMayBeTheOne(t *testing.T) {
	admission := diagnosis(observer.CauseAdmission, "12.0 rollouts waited for the limit, 2.1 s each")
	for want, d := range map[string]observer.Diagnosis{
		"Nothing limits this stack that these processes can see.":                                                  healthy(),
		"The stack is limited by driver (pid 1): lock at store.(*Cache).Put (store/cache.go:42).":                  locked(),
		"The stack is limited by driver (pid 1): admission, 12.0 rollouts waited for the limit, 2.1 s each.":       admission,
		"The stack waits for servers that driver (pid 1) does not name.":                                           downstream(),
		"Nothing can be said yet: the first window is not complete.":                                               {Summary: "the first window is not complete."},
		"The stack is limited by driver (pid 1): unknown.":                                                         {Verdict: observer.CauseUnknown},
		"The stack is limited by driver (pid 1): lock held across net.Dial (c.go:51).":                             {Verdict: observer.CauseLock, Sites: []observer.Site{{Kind: "hold", In: "net.Dial", Location: "c.go:51"}}},
		"The stack is limited by driver (pid 1): lock at f (c.go:42), held in g (c.go:51).":                        {Verdict: observer.CauseLock, Sites: []observer.Site{{Kind: "wait", Function: "f", Location: "c.go:42"}, {Kind: "hold", Function: "g", Location: "c.go:51"}}},
		"The stack is limited by driver (pid 1): gc at main.decode (handlers.go:88).":                              {Verdict: observer.CauseGC, Sites: []observer.Site{{Kind: "alloc", Function: "main.decode", Location: "handlers.go:88"}}},
		"The stack is limited by others:1, where no observer answers (not a host and port; -page says where its p": {Verdict: observer.CauseDownstream, Peers: []observer.Peer{{Host: "the model", Waiting: 1}, {Host: "others", Waiting: 9}}},
	} {
		chain := follow(t, serve(t, "driver", 1, d).URL)
		want = strings.Replace(want, "others:1", "the model", 1)
		assert.True(t, strings.HasPrefix(chain.Summary, want), "%q begins with %q", chain.Summary, want)
		assert.Equal(t, strings.HasPrefix(want, "The stack is limited"), len(chain.Limits) > 0, want)
	}
}

// Where servers answer as fast as they can by what they see, a limit that is too low
// is what is left.
func TestDriversLimitIsFoundBehindHealthyServers(t *testing.T) {
	agent := serve(t, "agent", 2, healthy())
	d := downstream(agent.host())
	driver := serve(t, "driver", 1, d)
	assert.Equal(t, "Nothing limits this stack that these processes can see: it waits for agent (pid 2), which is not slow by what it sees.", follow(t, driver.URL).Summary)

	d.Also = []observer.Cause{observer.CauseAdmission}
	d.Findings = append(d.Findings, observer.Finding{Cause: observer.CauseAdmission, Load: 12, Evidence: "12.0 rollouts waited for the limit"})
	driver.say(t, "driver", 1, d)
	chain := follow(t, driver.URL)
	assert.Equal(t, []client.Limit{{Link: 0, Cause: observer.CauseAdmission, Share: 1}}, chain.Limits)
	assert.Equal(t, "The stack is limited by driver (pid 1): admission, 12.0 rollouts waited for the limit.", chain.Summary)

	agent.say(t, "agent", 2, locked())
	assert.Contains(t, follow(t, driver.URL).Summary, "agent (pid 2): lock", "a slow server comes first")
}

func TestSeveralAreNamedTheLargerShareFirst(t *testing.T) {
	gc := diagnosis(observer.CauseGC, "the collector used 1.1 of 2 processors")
	model, resources, gone := serve(t, "model", 3, gc), serve(t, "resources", 4, locked()), refusing(t)
	hardly := serve(t, "hardly", 5, locked())
	d := downstream(model.host(), resources.host(), gone, hardly.host())
	d.Peers[2].Waiting, d.Peers[3].Waiting = 8, 1
	d.Peers[1].Waiting = 24 // out of order
	driver := serve(t, "driver", 1, d)
	chain := follow(t, driver.URL)
	assert.Equal(t, "The stack is limited by resources (pid 4): lock at store.(*Cache).Put (store/cache.go:42) (49 %); "+
		"and by model (pid 3): gc, the collector used 1.1 of 2 processors (33 %); "+
		"and by "+gone+", where no observer answers (refused) (16 %).", chain.Summary)
	assert.Zero(t, hardly.asked.Load(), "one that is hardly waited for is not asked")
	assert.Equal(t, 1, chain.Links[0].More)
	for _, page := range []*fakePage{driver, model, resources} {
		assert.Equal(t, int64(1), page.asked.Load(), "each once")
	}
}

func TestEachProcessOnceByEveryWay(t *testing.T) {
	model := serve(t, "model", 4, locked())
	a := serve(t, "a", 2, downstream(model.host()))
	b := serve(t, "b", 3, downstream(strings.Replace(model.host(), "127.0.0.1", "localhost", 1), model.host()))
	d := downstream(a.host(), b.host())
	d.Peers[1].Waiting = d.Peers[0].Waiting
	chain := follow(t, serve(t, "driver", 1, d).URL)
	var again int
	for _, l := range chain.Links {
		assert.False(t, l.Ring)
		if l.Again >= 0 {
			again++
			assert.Equal(t, "model", chain.Links[l.Again].Report.Name)
		}
	}
	assert.Equal(t, 2, again)
	assert.Equal(t, "The stack is limited by model (pid 4): lock at store.(*Cache).Put (store/cache.go:42).", chain.Summary)
	assert.LessOrEqual(t, model.asked.Load(), int64(2), "it is asked by each of its names at most once")
}

func TestRingIsSaidAndNotFollowed(t *testing.T) {
	t.Run("through the first", func(t *testing.T) {
		a, b := serve(t, "a", 1, healthy()), serve(t, "b", 2, healthy())
		a.say(t, "a", 1, downstream(b.host()))
		b.say(t, "b", 2, downstream(a.host()))
		chain := follow(t, a.URL)
		require.Len(t, chain.Links, 3)
		assert.True(t, chain.Links[2].Ring)
		assert.Equal(t, 0, chain.Links[2].Again)
		assert.Equal(t, "These processes wait for each other in a ring, and none of them has another cause.", chain.Summary)
		assert.Equal(t, int64(1), a.asked.Load())
	})
	t.Run("beside each other", func(t *testing.T) {
		a, b := serve(t, "a", 1, healthy()), serve(t, "b", 2, healthy())
		d := downstream(b.host())
		d.Also = []observer.Cause{observer.CauseLock}
		a.say(t, "a", 1, d)
		b.say(t, "b", 2, downstream(a.host()))
		chain := follow(t, serve(t, "driver", 3, downstream(a.host(), b.host())).URL)
		require.Len(t, chain.Links, 5)
		assert.True(t, chain.Links[3].Ring)
		assert.True(t, chain.Links[4].Ring)
		assert.Equal(t, "The stack is limited by a (pid 1): lock.", chain.Summary)
	})
	t.Run("under two names", func(t *testing.T) {
		a := serve(t, "a", 1, healthy())
		a.say(t, "a", 1, downstream(strings.Replace(a.host(), "127.0.0.1", "localhost", 1)))
		chain := follow(t, a.URL)
		require.Len(t, chain.Links, 2)
		assert.True(t, chain.Links[1].Ring)
	})
}

func TestDepthAndNumberAreBounded(t *testing.T) {
	t.Run("depth", func(t *testing.T) {
		next := locked()
		var page *fakePage
		for i := range 12 {
			page = serve(t, fmt.Sprint("p", i), i+1, next)
			next = downstream(page.host())
		}
		chain := follow(t, page.URL)
		require.Len(t, chain.Links, 10)
		assert.ErrorContains(t, chain.Links[9].Err, "not asked, as it is 9 processes away")
		assert.Contains(t, chain.Summary, ". Not all of it was asked.")
	})
	t.Run("number", func(t *testing.T) {
		leaf := serve(t, "leaf", 9, healthy())
		wide := func(level int) (hosts []string) {
			for i := range 8 {
				d := healthy()
				if level > 0 {
					d = downstream()
					for j := range 8 {
						d.Peers = append(d.Peers, observer.Peer{Host: fmt.Sprintf("127.0.0.%d:%s", 10+8*i+j, leaf.URL[strings.LastIndex(leaf.URL, ":")+1:]), Waiting: 1})
					}
				}
				hosts = append(hosts, serve(t, fmt.Sprint("p", i), i+1, d).host())
			}
			return hosts
		}
		d := downstream(wide(1)...)
		for i := range d.Peers {
			d.Peers[i].Waiting = 1
		}
		chain := follow(t, serve(t, "driver", 1, d).URL, client.WithTimeout(5*time.Second))
		require.Len(t, chain.Links, 73)
		notAsked := 0
		for _, l := range chain.Links {
			if l.Err != nil && strings.Contains(l.Err.Error(), "not asked, as 64 processes were") {
				notAsked++
			}
		}
		assert.Equal(t, 9, notAsked)
	})
	t.Run("a thousand peers", func(t *testing.T) {
		page := serve(t, "hostile", 1, healthy())
		d := downstream()
		for i := range 1000 {
			d.Peers = append(d.Peers, observer.Peer{Host: fmt.Sprintf("127.0.1.%d:1", i%250), Waiting: 1})
		}
		page.say(t, "hostile", 1, d)
		chain := follow(t, page.URL)
		assert.Len(t, chain.Links, 9)
		assert.Equal(t, 56, chain.Links[0].More, "of the 64 that are read")
	})
}

func TestWhatDoesNotAnswerEndsItsBranchAlone(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // accepts, in its backlog, and says nothing
	require.NoError(t, err)
	defer hanging.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	starting := serve(t, "starting", 8, observer.Diagnosis{Summary: "the first window is not complete"})
	d := downstream(hanging.Addr().String(), hostOf(plain.URL), refusing(t), starting.host())
	for i := range d.Peers {
		d.Peers[i].Waiting = 1
	}
	driver := serve(t, "driver", 1, d)
	chain := follow(t, driver.URL, client.WithTimeout(300*time.Millisecond))
	var reasons []string
	for _, l := range chain.Links[1:] {
		var failure *client.Failure
		require.ErrorAs(t, l.Err, &failure)
		reasons = append(reasons, failure.Reason)
		assert.Equal(t, "http://"+l.Peer.Host+"/debug/observer", l.Page)
	}
	assert.Equal(t, []string{"timed out after 300ms", "404 Not Found", "refused", "no verdict: the first window is not complete"}, reasons)
	require.Len(t, chain.Limits, 4)
	for _, l := range chain.Limits {
		assert.Empty(t, l.Cause)
		assert.Equal(t, 0.25, l.Share)
	}
}

func TestPagesElsewhere(t *testing.T) {
	model := serve(t, "model", 4, locked())
	server := httptest.NewUnstartedServer(model)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := downstream("the model")
	driver := serve(t, "driver", 1, d)
	options := []client.Option{client.WithRootCAs(roots), client.WithHeader("Authorization", "Bearer t"), client.WithPage("the model", server.URL)}
	assert.Contains(t, follow(t, driver.URL, options...).Summary, "model (pid 4): lock")
	assert.Equal(t, "Bearer t", driver.header.Get("Authorization"))
	assert.Equal(t, "Bearer t", model.header.Get("Authorization"), "its page was named")
}

func TestHeadersGoToNamedHostsAlone(t *testing.T) {
	model := serve(t, "model", 4, locked())
	driver := serve(t, "driver", 1, downstream(model.host()))
	token := client.WithHeader("Authorization", "Bearer t")
	follow(t, driver.URL, token)
	assert.Equal(t, "Bearer t", driver.header.Get("Authorization"))
	assert.Empty(t, model.header.Get("Authorization"), "it was found on the way")

	// One port for all, on several addresses: the page of each is there.
	_, port, err := net.SplitHostPort(model.host())
	require.NoError(t, err)
	var number int
	_, err = fmt.Sscan(port, &number)
	require.NoError(t, err)
	driver.say(t, "driver", 1, downstream("127.0.0.1:8000"))
	chain := follow(t, driver.URL, token, client.WithPort(number))
	assert.Equal(t, model.URL+"/debug/observer", chain.Links[1].Page)
	assert.Equal(t, "Bearer t", model.header.Get("Authorization"), "with a port for all, they are all meant")
}

func TestFollowFailsWhereItCannotBegin(t *testing.T) {
	address := refusing(t)
	chain, err := client.Follow(t.Context(), address)
	assert.ErrorContains(t, err, "refused")
	require.Len(t, chain.Links, 1)
	assert.Equal(t, err, chain.Links[0].Err)
	assert.Equal(t, "Nothing can be said: http://"+address+"/debug/observer: refused.", chain.Summary)
	for _, options := range [][]client.Option{{client.WithPort(-1)}, {client.WithPort(70000)}, {client.WithPage("a:1", "ftp://a")}} {
		page := serve(t, "driver", 1, healthy())
		_, err := client.Follow(t.Context(), page.URL, options...)
		assert.Error(t, err)
		assert.Zero(t, page.asked.Load())
	}
	_, err = client.Follow(t.Context(), "ftp://a")
	assert.ErrorContains(t, err, "neither http nor https")
}

func TestFollowEndsWithItsContext(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hanging.Close()
	ctx, cancel := context.WithCancel(t.Context())
	driver := serve(t, "driver", 1, downstream(hanging.Addr().String()))
	done := make(chan client.Chain)
	go func() {
		chain, _ := client.Follow(ctx, driver.URL, client.WithTimeout(time.Hour))
		done <- chain
	}()
	connection, err := hanging.Accept() // it is asked by now
	require.NoError(t, err)
	defer connection.Close()
	cancel()
	chain := <-done
	require.Len(t, chain.Links, 2)
	assert.ErrorContains(t, chain.Links[1].Err, "interrupted")
}
