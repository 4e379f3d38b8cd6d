package client

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// entries is how many of a list are kept. A page has at most a dozen or two; its
// history has a row a second, and a minute of it is more than is looked at.
const entries = 64

// first keeps the first entries of a JSON array. An empty one is nil.
type first[T any] []T

// UnmarshalJSON reads an array or null.
func (f *first[T]) UnmarshalJSON(text []byte) error {
	var kept []T
	err := each(text, func(entry T) bool {
		kept = append(kept, entry)
		return len(kept) < entries
	})
	*f = kept
	return err
}

// last keeps the last entries of a JSON array. An empty one is nil.
type last[T any] []T

// UnmarshalJSON reads an array or null.
func (l *last[T]) UnmarshalJSON(text []byte) error {
	var kept []T
	err := each(text, func(entry T) bool {
		if len(kept) == 2*entries {
			kept = append(kept[:0], kept[entries:]...)
		}
		kept = append(kept, entry)
		return true
	})
	*l = kept[max(0, len(kept)-entries):]
	return err
}

// each decodes an array entry by entry, as long as yield wants more.
func each[T any](text []byte, yield func(T) bool) error {
	if string(text) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("no list: %.20q", text)
	}
	for decoder.More() {
		var entry T
		if err := decoder.Decode(&entry); err != nil {
			return err
		}
		if !yield(entry) {
			return nil
		}
	}
	return nil
}
