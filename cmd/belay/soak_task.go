package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/kv/task"
)

// soakTaskCommand is what the soak's familiar runs: it notes its start and
// end, and whether another attempt of its task lives at the same time.
func soakTaskCommand() *cobra.Command {
	var notes, locks, result string
	cmd := &cobra.Command{
		Use:    "task",
		Short:  "Run one task of the soak",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n := note{Task: os.Getenv("BELAY_TASK_ID"), Attempt: os.Getenv("BELAY_ATTEMPT"), PID: os.Getpid()}
			lock, err := os.OpenFile(filepath.Join(locks, n.Task), os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				return fmt.Errorf("open the task's lock: %w", err)
			}
			defer lock.Close()
			// The kernel lets go of the lock when its holder is gone.
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				return errors.Join(errors.New("another attempt of the task lives"), n.write(notes, noteOverlap))
			}
			if err := n.write(notes, noteStart); err != nil {
				return err
			}
			pauseFor(cmd.Context(), time.Duration(5+rand.IntN(150))*time.Millisecond)
			if err := n.write(notes, noteEnd); err != nil {
				return err
			}
			return writeDemoResult(result, task.Kind{Name: task.FixIssue, IssueTitle: "a task of the soak"})
		},
	}
	cmd.Flags().StringVar(&notes, "notes", "", "file to note the start and the end in")
	cmd.Flags().StringVar(&locks, "locks", "", "folder of the tasks' locks")
	cmd.Flags().StringVar(&result, "result", "", "where to write the result")
	return cmd
}

// write appends one line; lines of this size are appended whole.
func (n note) write(path, event string) error {
	n.Event, n.At = event, time.Now()
	line, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode note: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the notes: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}
