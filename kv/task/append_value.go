package task

import (
	"encoding/json"
	"strconv"
)

// writer appends the members of an object.
type writer struct {
	b   []byte
	err error
}

func (w *writer) key(key string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), key...), '"', ':')
}

func (w *writer) int(key string, n int64) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) optInt(key string, n int64) {
	if n != 0 {
		w.int(key, n)
	}
}

func (w *writer) str(key, s string) {
	w.key(key)
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				w.err = err
			}
			w.b = append(w.b, text...)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *writer) optStr(key, s string) {
	if s != "" {
		w.str(key, s)
	}
}

func (w *writer) time(key string, t Time) {
	w.key(key)
	w.b = append(w.b, '"')
	if !t.IsZero() {
		w.b = t.append(w.b)
	}
	w.b = append(w.b, '"')
}

func (w *writer) optTime(key string, t Time) {
	if !t.IsZero() {
		w.time(key, t)
	}
}

func (w *writer) any(key string, v any) {
	w.key(key)
	text, err := json.Marshal(v)
	if err != nil {
		w.err = err
	}
	w.b = append(w.b, text...)
}
