package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// The events of a note.
const (
	noteStart   = "start"
	noteEnd     = "end"
	noteOverlap = "overlap" // another attempt of the task held its lock
)

// note is one line of the file that runs write to, outside the store.
type note struct {
	Event   string    `json:"event"`
	Task    string    `json:"task"`
	Attempt string    `json:"attempt"`
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`
}

// readNotes reads the file; a last line that a kill cut short is left out.
func readNotes(path string) ([]note, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes of the runs: %w", err)
	}
	var out []note
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		var n note
		if json.Unmarshal(sc.Bytes(), &n) == nil {
			out = append(out, n)
		}
	}
	return out, sc.Err()
}

// findings are what an audit found; each entry is an id with its story.
type findings struct {
	lost, extra, twice, overlapping, afterEnd, open, failed []string
}

// audit compares what clients were told, what runs noted and what the list
// says. ended is when the list first showed a task as ended.
func audit(accepted map[string]string, sent map[string]bool, list []soakItem, notes []note, ended map[string]time.Time) findings {
	var f findings
	listed := map[string]int{}
	for _, t := range list {
		listed[t.ID]++
		switch {
		case t.open():
			f.open = append(f.open, t.ID+" is "+t.Status)
		case t.Status == "failed":
			f.failed = append(f.failed, t.ID)
		}
	}
	of := map[string]string{}
	for delivery, id := range accepted {
		if listed[id] == 0 {
			f.lost = append(f.lost, fmt.Sprintf("delivery %s, task %q", delivery, id))
		}
		if first, known := of[id]; known {
			f.twice = append(f.twice, fmt.Sprintf("task %s for deliveries %s and %s", id, first, delivery))
		}
		of[id] = delivery
	}
	for id, n := range listed {
		if n > 1 {
			f.twice = append(f.twice, "the list has "+id+" more than once")
		}
	}
	// A delivery that was sent but never answered may have been stored.
	if over := len(listed) - len(sent); over > 0 {
		f.extra = append(f.extra, fmt.Sprintf("%d tasks for %d deliveries", len(listed), len(sent)))
	}
	f.auditRuns(notes, ended)
	return f
}

func (f *findings) auditRuns(notes []note, ended map[string]time.Time) {
	attempts := map[string]bool{}
	for _, n := range notes {
		switch n.Event {
		case noteOverlap:
			f.overlapping = append(f.overlapping, fmt.Sprintf("task %s, attempt %s", n.Task, n.Attempt))
		case noteStart:
			key := n.Task + "/" + n.Attempt
			if attempts[key] {
				f.overlapping = append(f.overlapping, "attempt "+key+" began twice")
			}
			attempts[key] = true
			if at, ok := ended[n.Task]; ok && n.At.After(at) {
				f.afterEnd = append(f.afterEnd, fmt.Sprintf("task %s began attempt %s at %s, was ended by %s", n.Task, n.Attempt, n.At, at))
			}
		}
	}
}

// violations counts what must not be; a task that failed is not among them.
func (f *findings) violations() int {
	return len(f.lost) + len(f.extra) + len(f.twice) + len(f.overlapping) + len(f.afterEnd) + len(f.open)
}

// first is one of the violations, for the error.
func (f *findings) first() string {
	for _, kind := range [][]string{f.lost, f.extra, f.twice, f.overlapping, f.afterEnd, f.open} {
		if len(kind) > 0 {
			return kind[0]
		}
	}
	return ""
}
