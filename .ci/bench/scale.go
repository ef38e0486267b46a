package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// scaled is what answering costs with a large store.
type scaled struct {
	What   string  `json:"what"`
	Round  int     `json:"round"`
	Millis float64 `json:"ms"`
}

// scaleLooks is how often each answer is asked for.
const scaleLooks = 50

// scaleCommand measures what people and Prometheus ask for again and again, on
// a belay that keeps many tasks of many repositories.
func scaleCommand(ctx context.Context, args []string) error {
	job := fillJob{Tasks: 1_000_000, Deliveries: 1_000_000, Repos: 5000}
	o, err := parse("scale", args, func(fs *flag.FlagSet) {
		fs.IntVar(&job.Tasks, "tasks", job.Tasks, "terminal tasks in the store, and deliveries")
		fs.IntVar(&job.Repos, "repos", job.Repos, "repositories that they are of")
	})
	if err != nil {
		return err
	}
	if o.quick {
		job.Tasks = 500
	}
	job.Deliveries = job.Tasks
	dir, done, err := o.temp("scale")
	if err != nil {
		return err
	}
	defer done()
	bin, err := build(ctx, o, dir)
	if err != nil {
		return err
	}
	job.Dir = filepath.Join(dir, "full")
	if err := os.Mkdir(job.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := fill(ctx, job); err != nil {
		return fmt.Errorf("fill the store: %w", err)
	}
	s, err := startServe(ctx, bin, job.Dir)
	if err != nil {
		return err
	}
	all, series, err := look(ctx, s)
	fmt.Printf("  %d tasks of %d repositories: %.0f MiB resident, %d series\n", job.Tasks, job.Repos, s.rss(), series)
	if err = errors.Join(err, s.kill()); err != nil {
		return err
	}
	if series >= 500 {
		fmt.Printf("  %d series, fewer than 500 are wanted   MISSED\n", series)
	}
	for _, c := range scaleAnswers(s) {
		target("scale: ms for "+c.what, pick(all, func(m scaled) bool { return m.What == c.what }, func(m scaled) float64 { return m.Millis }), c.limit, false)
	}
	return o.writeJSON("scale", all)
}

type scaleAnswer struct {
	what, url string
	limit     float64
}

func scaleAnswers(s *serve) []scaleAnswer {
	api := "http://" + s.public + "/api/github/"
	return []scaleAnswer{
		{"/metrics", "http://" + s.admin + "/metrics", 20},
		{"the first page of the list", api + "tasks", 50},
		{"the first page of a repository", api + "tasks?repo=acme/service-77", 50},
		{"the first page of an installation's failed", api + "tasks?installation=5&status=failed", 50},
		{"usage", api + "usage", 50},
	}
}

// look asks for each answer, in turns, and counts the series of /metrics.
func look(ctx context.Context, s *serve) (all []scaled, series int, err error) {
	for round := range scaleLooks {
		for _, c := range scaleAnswers(s) {
			began := time.Now()
			body, err := ask(ctx, c.url)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", c.what, err)
			}
			all = append(all, scaled{c.what, round, float64(time.Since(began).Microseconds()) / 1000})
			if c.what == "/metrics" {
				series = 0
				for line := range bytes.Lines(body) {
					if len(line) > 1 && line[0] != '#' {
						series++
					}
				}
			}
		}
	}
	return all, series, nil
}

func ask(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %d: %s", res.StatusCode, body)
	}
	return body, nil
}
