package kv

import (
	"github.com/belay-run/belay/kv/task"
)

// Accepted says what became of a delivery that was handed to the log.
type Accepted struct {
	// Delivery is what the log holds: the one just stored, or on Duplicate
	// the first one.
	Delivery task.Delivery
	// Seq is its sequence in stream WEBHOOKS.
	Seq uint64
	// Duplicate is true when the log held this delivery before.
	Duplicate bool
}

// Logged is a delivery with its place in the log.
type Logged struct {
	task.Delivery
	Seq uint64
}

// DeliveryQuery selects a page of the log, newest first.
type DeliveryQuery struct {
	Installation *int64
	Repos        []string
	Repo         string
	Limit        int
	Cursor       string
}

// DeliveryPage is a part of the log; Next is "" at its end.
type DeliveryPage struct {
	Deliveries []Logged
	Next       string
}
