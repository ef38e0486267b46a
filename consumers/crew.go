package consumers

// crew runs functions concurrently and keeps the goroutines of those that
// ended for the next ones: a fresh goroutine would grow its stack anew for
// every task. There are never more than functions ran at once.
type crew struct {
	jobs chan func()
	over <-chan struct{} // ends those that have nothing to do
}

func newCrew(over <-chan struct{}) *crew { return &crew{jobs: make(chan func()), over: over} }

// run runs f and does not wait for it.
func (c *crew) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.member(f)
	}
}

func (c *crew) member(f func()) {
	for {
		f()
		select {
		case f = <-c.jobs:
		case <-c.over:
			return
		}
	}
}
