package redact

import "io"

// Writer redacts what is written to it and passes it on. A secret that is
// split over several writes is still found. It is not safe for concurrent
// use; Close passes on what was held back and does not close the target.
type Writer struct {
	r    *Redactor
	to   io.Writer
	sc   scanner
	held []byte
	out  []byte
}

// Writer returns a Writer in front of w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, to: w} }

// Write takes all of p unless the target refuses.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close passes on what was held back.
func (w *Writer) Close() error { return w.pass(nil, true) }

func (w *Writer) pass(p []byte, final bool) error {
	b := p
	if len(w.held) > 0 {
		w.held = append(w.held, p...)
		b = w.held
	}
	out, n := w.sc.scan(w.r.values.Load(), w.out[:0], b, final)
	w.held = append(w.held[:0], b[n:]...)
	w.out = out[:0]
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}
