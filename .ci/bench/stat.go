package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// series is one number over the rounds.
type series []float64

// median is the middle one, 0 of none.
func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	t := slices.Sorted(slices.Values(s))
	if n := len(t); n%2 == 0 {
		return (t[n/2-1] + t[n/2]) / 2
	}
	return t[len(t)/2]
}

// String is the median with the lowest and the highest round.
func (s series) String() string {
	if len(s) == 0 {
		return "-"
	}
	if len(s) == 1 {
		return short(s[0])
	}
	return fmt.Sprintf("%s [%s–%s]", short(s.median()), short(slices.Min(s)), short(slices.Max(s)))
}

// over divides round by round: what disturbs a round disturbs both.
func (s series) over(t series) series {
	var out series
	for i := range min(len(s), len(t)) {
		if t[i] > 0 {
			out = append(out, s[i]/t[i])
		}
	}
	return out
}

func short(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// pick collects one number of the measurements that match, in their order.
func pick[T any](all []T, match func(T) bool, number func(T) float64) series {
	var out series
	for _, m := range all {
		if match(m) {
			out = append(out, number(m))
		}
	}
	return out
}

// quantiles are the latencies of a measurement in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func quantilesOf(all []time.Duration) quantiles {
	if len(all) == 0 {
		return quantiles{}
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[min(len(all)-1, int(q*float64(len(all))))]) / float64(time.Millisecond)
	}
	return quantiles{P50: at(.50), P95: at(.95), P99: at(.99), Max: at(1)}
}

// table prints rows, the first of which is the head.
func table(rows [][]string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
}

// target says whether a number is where it should be. It fails nothing: how
// fast a machine is, no test can demand.
func target(what string, got series, want float64, atLeast bool) {
	if len(got) == 0 {
		return
	}
	sign, met := "≥", got.median() >= want
	if !atLeast {
		sign, met = "≤", got.median() <= want
	}
	word := "reached"
	if !met {
		word = "MISSED"
	}
	fmt.Printf("  %-52s %s   target %s %g   %s\n", what, got, sign, want, word)
}

// writeJSON keeps every measurement, for those who want to compute on.
func (o *options) writeJSON(benchmark string, all any) error {
	if o.json == "" {
		return nil
	}
	line, err := json.Marshal(map[string]any{"benchmark": benchmark, "measurements": all})
	if err != nil {
		return fmt.Errorf("encode measurements: %w", err)
	}
	f, err := os.OpenFile(o.json, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write measurements: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write measurements: %w", err)
	}
	return nil
}
