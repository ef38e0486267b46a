package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const childOpen = "child-open"

// openJob names a store to be opened, and a file for a profile of that.
type openJob struct {
	Dir     string
	Profile string
}

// opened says where the time of a start goes.
type opened struct {
	Server string `json:"server_and_streams"`
	View   string `json:"read_model"`
	usage
}

// openChild opens a store and its read model as a start does.
func openChild(ctx context.Context, args []string) error {
	job, err := told[openJob](args)
	if err != nil {
		return err
	}
	stop, err := profiled(job.Profile)
	if err != nil {
		return err
	}
	began := time.Now()
	st, err := openStore(ctx, job.Dir, syncAlways)
	if err != nil {
		return err
	}
	server := time.Since(began)
	s := &stack{store: st}
	if err := s.open(ctx); err != nil {
		return errors.Join(err, st.close())
	}
	m := opened{Server: server.String(), View: (time.Since(began) - server).String(), usage: ownUsage()}
	err = errors.Join(stop(), say(m))
	s.stopView()
	return errors.Join(err, st.close())
}

// explainStart profiles the opening of a store; its numbers are for people.
func explainStart(ctx context.Context, o *options, dir string) error {
	if o.profile == "" {
		return nil
	}
	c, err := startChild(ctx, childOpen, openJob{Dir: dir, Profile: o.profileFile("start")})
	if err != nil {
		return err
	}
	var m opened
	if err := c.read(&m); err != nil {
		return err
	}
	fmt.Printf("  profiled: server and streams %s, read model %s, %.1f s of processor time\n", m.Server, m.View, m.CPU)
	return c.stop(nil)
}
