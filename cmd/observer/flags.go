package main

import (
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gym-observer/observer/client"
	"github.com/gym-observer/observer/internal/fetch"
)

// flags are what the three commands have in common.
type flags struct {
	*flag.FlagSet
	headerTexts []string
	headers     http.Header
	timeout     time.Duration
	roots       *x509.CertPool
	insecure    bool
}

func newFlags(name string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), headers: http.Header{}}
	f.SetOutput(new(strings.Builder)) // run prints what is wrong
	f.Usage = func() {}
	f.DurationVar(&f.timeout, "timeout", fetch.Timeout, "how long one page may take")
	// Package flag would repeat a wrong one in its message, the token included.
	f.Func("header", "a `header` for the named hosts: 'Name: value', or @FILE with one a line; repeatable", func(text string) error {
		f.headerTexts = append(f.headerTexts, text)
		return nil
	})
	f.Func("cacert", "a `file` with the certificates that may sign those of the pages", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if f.roots == nil {
			f.roots = x509.NewCertPool()
		}
		if !f.roots.AppendCertsFromPEM(text) {
			return errors.New("it has no certificate in PEM")
		}
		return nil
	})
	f.BoolVar(&f.insecure, "insecure", false, "refused: it would show a token to whoever answers")
	return f
}

// parse reads flags and arguments, and what the flags name.
func (f *flags) parse(args []string) (urls []string, err error) {
	urls, err = f.split(args)
	switch {
	case err != nil:
		return nil, err
	case f.insecure:
		return nil, errors.New("-insecure is refused: without a check of the certificate a token goes to whoever answers; pass the certificate that signed it with -cacert FILE")
	case f.timeout <= 0:
		return nil, errors.New("-timeout: a page needs some time")
	}
	for _, text := range f.headerTexts {
		if err := addHeaders(f.headers, text); err != nil {
			return nil, fmt.Errorf("-header: %w", err)
		}
	}
	return urls, nil
}

// split reads flags and arguments in any order, as people type them.
func (f *flags) split(args []string) (urls []string, err error) {
	for {
		if err := f.FlagSet.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, f.help()
			}
			return nil, err
		}
		// What stands behind -- is an argument, whatever it looks like.
		if parsed := len(args) - f.NArg(); parsed > 0 && args[parsed-1] == "--" {
			return append(urls, f.Args()...), nil
		}
		if f.NArg() == 0 {
			return urls, nil
		}
		urls = append(urls, f.Arg(0))
		args = f.Args()[1:]
	}
}

// help is flag.ErrHelp with the text.
func (f *flags) help() error {
	var text strings.Builder
	text.WriteString(usage)
	f.SetOutput(&text)
	f.PrintDefaults()
	return helpError(text.String())
}

type helpError string

func (h helpError) Error() string { return string(h) }
func (helpError) Unwrap() error   { return flag.ErrHelp }

// options are those of package client.
func (f *flags) options() (all []client.Option) {
	all = append(all, client.WithTimeout(f.timeout), client.WithRootCAs(f.roots))
	for name, values := range f.headers {
		for _, value := range values {
			all = append(all, client.WithHeader(name, value))
		}
	}
	return all
}

// addHeaders reads what -header has. With a file, a token need not stand in the
// list of processes.
func addHeaders(headers http.Header, text string) error {
	lines := []string{text}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines = strings.Split(string(content), "\n")
	}
	found := false
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		// The text itself is not repeated: there is a secret in it.
		if !ok || name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsFunc(value, isControl) {
			return errors.New("a header is 'Name: value'")
		}
		headers.Add(name, value)
		found = true
	}
	if !found {
		return errors.New("it has no header")
	}
	return nil
}

func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// pairs is a repeatable flag of the form KEY=VALUE.
func pairs(into map[string]string, form string) func(string) error {
	return func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" || value == "" {
			return fmt.Errorf("it is %s", form)
		}
		into[key] = value
		return nil
	}
}

func needURLs(urls []string, atMost int) error {
	switch {
	case len(urls) == 0:
		return errors.New("which process? Give the URL of its live page, or its host and port; -h shows the flags")
	case len(urls) > atMost:
		return fmt.Errorf("one URL is enough here, not %d", len(urls))
	case slices.Contains(urls, ""):
		return errors.New("a URL is empty")
	}
	return nil
}
