package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/task"
)

// demoTaskCommand is the command that the demo's familiar runs: an example of
// the contract. It reads the brief, waits for the gate and writes a result.
func demoTaskCommand() *cobra.Command {
	var brief, result, gate string
	cmd := &cobra.Command{
		Use:    "task",
		Short:  "Run one task of the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := os.ReadFile(brief)
			if err != nil {
				return fmt.Errorf("read brief: %w", err)
			}
			var b struct {
				Task task.Kind `json:"task"`
			}
			if err := json.Unmarshal(data, &b); err != nil {
				return fmt.Errorf("read brief: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "working on %s\n", b.Task.Title())
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				_, err := os.Stat(gate)
				if err == nil {
					break
				}
				if !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("look for the gate: %w", err)
				}
				select {
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				case <-tick.C:
				}
			}
			return writeDemoResult(result, b.Task)
		},
	}
	cmd.Flags().StringVar(&brief, "brief", "", "the brief")
	cmd.Flags().StringVar(&result, "result", "", "where to write the result")
	cmd.Flags().StringVar(&gate, "gate", "", "a file to wait for")
	return cmd
}

func writeDemoResult(path string, k task.Kind) error {
	res := executor.Result{
		ContractVersion: executor.ContractVersion, Status: task.ResultSuccess, Summary: "did nothing for " + k.Title(),
		Commits: []executor.Commit{}, FilesChanged: []string{},
		Review: executor.Review{
			Mode: executor.ReviewNone, EvidenceStatus: executor.EvidenceNotApplicable, ReviewedFiles: []string{},
			SupportingFiles: []string{}, Findings: []executor.Finding{}, TestsRun: []executor.TestRun{}, Limitations: []string{},
		},
	}
	switch k.Name {
	case task.FixIssue: // as if it had pushed a commit
		res.Branch, res.Commits = demoBranch(k.IssueNumber), []executor.Commit{{SHA: demoHeads[0], Message: "Add up an empty cart"}}
	case task.ReviewPullRequest:
		r := &res.Review
		r.Mode, r.EvidenceStatus, r.ReviewedFiles = executor.ReviewPullRequest, executor.EvidenceComplete, []string{"cart.go"}
		r.Findings = []executor.Finding{{Severity: executor.SeverityLow, File: "cart.go", Line: 1, Title: "No test for it", Body: "An empty cart is not tested."}}
	}
	out, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
