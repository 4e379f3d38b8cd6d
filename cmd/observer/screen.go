package main

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// screen is where the table is drawn: over and over in one place where that is a
// terminal, else as one block of lines after the other.
type screen struct {
	out      io.Writer
	terminal func() (width, height int) // its size; nil where it is none
	colour   bool
	width    int // where it is no terminal
	drawn    bool
	resized  <-chan os.Signal
	stopped  <-chan os.Signal
	unwatch  func()
}

const (
	// The other screen, so that what was there comes back; no cursor; and lines that
	// are too long, as one of wide characters may be, are cut off and not wrapped.
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// openScreen draws on out.
func openScreen(out io.Writer, getenv func(string) string) *screen {
	// A dumb terminal shows escape sequences as text.
	if file, ok := out.(*os.File); ok && getenv("TERM") != "" && getenv("TERM") != "dumb" {
		return newScreen(out, terminalOf(int(file.Fd())), getenv)
	}
	return newScreen(out, nil, getenv)
}

func newScreen(out io.Writer, terminal func() (width, height int), getenv func(string) string) *screen {
	s := &screen{out: out, terminal: terminal, width: 80, unwatch: func() {}}
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		s.width = min(columns, 1000)
	}
	if s.terminal != nil {
		s.colour = getenv("NO_COLOR") == ""
		s.resized, s.stopped, s.unwatch = watchTerminal()
		_, _ = io.WriteString(out, enter)
	}
	return s
}

// close gives the terminal back as it was.
func (s *screen) close() {
	s.unwatch()
	if s.terminal != nil {
		_, _ = io.WriteString(s.out, leave)
	}
}

// pause gives the terminal back for as long as the process is stopped, with Ctrl-Z:
// the shell that comes then would write on the other screen, without a cursor.
func (s *screen) pause() {
	_, _ = io.WriteString(s.out, leave)
	stopSelf()
	_, _ = io.WriteString(s.out, enter)
}

// size is how many columns and lines there are. No lines means any number.
func (s *screen) size() (width, height int) {
	if s.terminal == nil {
		return s.width, 0
	}
	width, height = s.terminal()
	if width <= 0 || height <= 0 { // as over some serial lines
		return 80, 24
	}
	return width, height
}

// draw shows lines, in one write: a terminal shows no half of a picture.
func (s *screen) draw(lines []string) error {
	var b strings.Builder
	if s.terminal == nil {
		if s.drawn {
			b.WriteString("\n")
		}
		for _, line := range lines {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	} else {
		b.WriteString("\x1b[H")
		for i, line := range lines {
			if i > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString(line + "\x1b[K")
		}
		b.WriteString("\x1b[J")
	}
	s.drawn = true
	_, err := io.WriteString(s.out, b.String())
	return err
}
