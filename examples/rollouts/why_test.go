package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

// settlePatience is until a running stack's pages name the stage: two windows for a
// verdict, one more for its lines, up to five seconds for a profile of a processor
// that others have, too.
const settlePatience = 40 * time.Second

// slowed is one stage that is slowed, and what is to be found.
type slowed struct {
	name, arguments string
	process         string
	cause           []observer.Cause // one of them
	file, statement string           // where it waits or works; "" where the cause has no line
}

// slowedStages are so slow that a busy machine cannot hide it.
var slowedStages = []slowed{
	{"limit of the driver", "-driver-limit 2", driverRole, causes(observer.CauseAdmission), "", ""},
	{"connections of the driver", "-driver-connections 1", driverRole, causes(observer.CauseWait), "agent.go", "client.Do("},
	{"processor time of the agent", "-agent-cpu 100ms", agentRole, causes(observer.CauseCPUSaturated, observer.CauseCPUContended), "agent.go", "sha256.Sum256("},
	{"pool of the agent", "-agent-pool 2", agentRole, causes(observer.CauseWait), "store.go", "db.ExecContext("},
	{"lock of the agent", "-agent-lock 30ms", agentRole, causes(observer.CauseLock), "guarded.go", "g.mu.Lock()"},
	{"lock of the model", "-model-lock 30ms", modelRole, causes(observer.CauseLock), "guarded.go", "g.mu.Lock()"},
	{"collector of the model", "-model-garbage 16", modelRole, causes(observer.CauseGC), "model.go", "&token{next: first}"},
	{"delay of the model", "-model-delay 600ms", modelRole, causes(observer.CauseWait), "model.go", "time.Sleep(s.ModelDelay)"},
	{"delay of the resources server", "-resources-delay 600ms", resourcesRole, causes(observer.CauseWait), "resources.go", "time.Sleep(s.ResourcesDelay)"},
	{"disk of the resources server", "-resources-disk 600ms", resourcesRole, causes(observer.CauseBlockedThread), "disk_unix.go", "syscall.Read("},
	{"lock of the resources server", "-resources-lock 30ms", resourcesRole, causes(observer.CauseLock), "guarded.go", "g.mu.Lock()"},
}

func causes(all ...observer.Cause) []observer.Cause { return all }

// TestWhyNamesProcessCauseAndLineFromTheDriversAddressAlone runs one stage, and all
// of them with -stages.
func TestWhyNamesProcessCauseAndLineFromTheDriversAddressAlone(t *testing.T) {
	all := slowedStages
	if !*stages {
		all = all[2:3]
	}
	for _, stage := range all {
		t.Run(stage.name, func(t *testing.T) {
			running := startStack(t, stage.arguments)
			running.eventually(t, func(chain client.Chain) string { return stage.differs(t, chain) })
		})
	}
}

// differs says what of a chain is not as it should be; "" for nothing.
func (s slowed) differs(t *testing.T, chain client.Chain) string {
	if len(chain.Limits) == 0 {
		return "nothing limits it"
	}
	limit := chain.Limits[0]
	report := chain.Links[limit.Link].Report
	if !strings.HasSuffix(report.Name, "/"+s.process) {
		return "it is " + report.Name + ", not " + s.process
	}
	if !slices.Contains(s.cause, limit.Cause) {
		return "the cause is " + string(limit.Cause)
	}
	if s.file == "" {
		return ""
	}
	if want := locationOf(t, s.file, s.statement); !strings.Contains(chain.Summary, want) {
		return "the line is not " + want
	}
	return ""
}

// locationOf is where a statement is, as a site has it.
func locationOf(t *testing.T, file, statement string) string {
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(source), statement)
	require.True(t, found, "%s has %s", file, statement)
	return fmt.Sprintf("examples/rollouts/%s:%d", file, 1+strings.Count(before, "\n"))
}

// TestWhyThroughWhatStandsInTheWay asks the same stack whose model takes its time,
// with something else where the model's page is, or the agent's.
func TestWhyThroughWhatStandsInTheWay(t *testing.T) {
	running := startStack(t, "-model-delay 600ms")
	settled := slowed{process: modelRole, cause: causes(observer.CauseWait), file: "model.go", statement: "time.Sleep(s.ModelDelay)"}
	running.eventually(t, func(chain client.Chain) string { return settled.differs(t, chain) })
	agent, model := hostOf(running.pages[agentRole]), hostOf(running.pages[modelRole])

	t.Run("a stage without an observer", func(t *testing.T) {
		unobserved := httptest.NewServer(http.NotFoundHandler())
		defer unobserved.Close()
		chain := running.follow(t, client.WithPage(model, unobserved.URL))
		assert.Equal(t, "The stack is limited by "+model+", where no observer answers (404 Not Found).", chain.Summary)
	})
	t.Run("a stage that hangs", func(t *testing.T) {
		hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		defer hangs.Close()
		began := time.Now()
		chain := running.follow(t, client.WithPage(model, hangs.URL))
		assert.Less(t, time.Since(began), 10*time.Second)
		assert.Contains(t, chain.Summary, "limited by "+model+", where no observer answers (timed out after 2s)")
	})
	t.Run("a stage behind TLS and a token", func(t *testing.T) {
		page, err := url.Parse(running.pages[agentRole])
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: page.Scheme, Host: page.Host})
		fenced := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		defer fenced.Close()
		roots := x509.NewCertPool()
		roots.AddCert(fenced.Certificate())

		refused := running.follow(t, client.WithPage(agent, fenced.URL), client.WithRootCAs(roots))
		assert.Contains(t, refused.Summary, "401")
		chain := running.follow(t, client.WithPage(agent, fenced.URL), client.WithRootCAs(roots), client.WithHeader("Authorization", "Bearer secret"))
		assert.Empty(t, settled.differs(t, chain), chain.Summary)
		assert.Equal(t, fenced.URL+pagePath, chain.Links[1].Page)
	})
	t.Run("a ring", func(t *testing.T) {
		chain := running.follow(t, client.WithPage(model, running.pages[driverRole]))
		require.Len(t, chain.Links, 3)
		assert.True(t, chain.Links[2].Ring, "driver, agent, and the driver again")
	})
}

func TestWhyOfAHealthyStackNamesNothing(t *testing.T) {
	running := startStack(t, "-rate 5 -driver-limit 0 -turns 1 -model-delay 1ms")
	running.eventually(t, func(chain client.Chain) string {
		if chain.Links[0].Report.Diagnosis.Verdict == "" {
			return "there is no verdict yet"
		}
		if chain.Summary != "Nothing limits this stack that these processes can see." {
			return chain.Summary
		}
		return ""
	})
}

// runningStack is a stack that runs until the end of its test.
type runningStack struct{ pages map[string]string } // by role

func startStack(t *testing.T, arguments string) runningStack {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	var log standardError
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append(strings.Fields(arguments), "-duration", "0", "-every", "0"), write, &log)
		write.Close()
	}()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, succeeded, <-status)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	running := runningStack{make(map[string]string)}
	lines := bufio.NewScanner(read)
	for len(running.pages) < processes && lines.Scan() {
		if found := regexp.MustCompile(`^(\w+) +process \d+, live page (\S+)$`).FindStringSubmatch(lines.Text()); found != nil {
			running.pages[found[1]] = found[2]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	require.Len(t, running.pages, processes, "what runs")
	return running
}

// follow asks from the driver's address.
func (r runningStack) follow(t *testing.T, options ...client.Option) client.Chain {
	t.Helper()
	chain, err := client.Follow(t.Context(), r.pages[driverRole], options...)
	require.NoError(t, err)
	return chain
}

// eventually asks until there is nothing to say against the answer.
func (r runningStack) eventually(t *testing.T, against func(client.Chain) string) {
	t.Helper()
	var chain client.Chain
	reason := ""
	for end := time.Now().Add(settlePatience); time.Now().Before(end); time.Sleep(sampleInterval) {
		chain = r.follow(t)
		if reason = against(chain); reason == "" {
			t.Log(chain.Summary)
			return
		}
	}
	for _, link := range chain.Links {
		t.Logf("%s: %s: %s", link.Page, link.Report.Diagnosis.Verdict, link.Report.Diagnosis.Summary)
	}
	t.Fatalf("%s: %s", reason, chain.Summary)
}

func hostOf(page string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(page, "http://"), "/")
	return host
}
