// Package executor runs the command of one attempt of one task and says how
// it ended. It knows no store: the worker claims the task before and writes
// the report after.
//
// # The run
//
//	brief ──▶ workspace ──▶ supervisor ──▶ command ──▶ result.json ──▶ report
//	                             │            │
//	                    control, status     output ──▶ redaction ──▶ log, tail
//
// The command gets an empty folder, the brief and the place of its result as
// paths in a configured argv, the git token in its environment, and nothing
// else of belay. What GitHub sent is in the brief only, never in argv (G39).
// No text leaves the package unredacted, and no brief is written that a live
// token appears in (ErrBriefToken).
//
// How a run ended is one table:
//
//	ended by                    result.json     class      outcome
//	exit 0, 1 or 3              valid           Done       completed, or failed if status is failure
//	exit 0, 1 or 3              missing, wrong  Retryable  failed
//	exit 2                      not read        Retryable  infra
//	another exit, a signal      not read        Retryable  failed
//	its timeout                 not read        Retryable  timeout
//	the context                 not read        Canceled   cancelled
//	nothing: it did not start   not read        Retryable  infra
//	the supervisor was lost     not read        Retryable  infra
//
// Exit 0 goes with status success or partial, 1 with failure, 3 with
// needs_input. Where they disagree the status counts and Detail says so.
//
// # Processes
//
// Safety: when Run returns no process of the command is left, and when belay
// dies, none is left soon after. On Linux each command has a supervisor for
// that: belay itself, started anew (Supervise), in a session of its own. It
// is the subreaper of all that the command starts, so that neither a second
// fork nor setsid leaves its reach. It kills the command's group before it
// reaps the group's leader (a group whose leader is reaped may by then be
// someone else's), then all descendants in /proc until there are none.
//
//	cause                                 what the supervisor does
//	the command ends                      SIGKILL to what is left
//	belay asks (timeout, context)         SIGTERM to all; SIGKILL to what is left after KillGrace
//	belay is gone (its pipe ends)         SIGKILL to all at once: the task may soon run elsewhere
//	belay is silent for Silence: frozen   SIGKILL to all at once, before its task is given to another
//	SIGTERM, SIGINT, SIGHUP to itself     nothing: they mean belay, which drains first
//
// If the supervisor itself is killed or does not answer, its command gets
// SIGKILL as its parent-death signal, and belay kills whatever carries the
// run's mark in its environment. Processes that do not die are counted in
// Report.Cleanup. What changes to another user (set-uid programs) can only be
// killed by a belay that is root.
//
// Liveness: Run returns within KillGrace of its timeout or of the context's
// end, and within a few WaitDelay more if processes refuse to die. Output
// never blocks the command: the log is cut, the pipe is read on.
//
// A supervised run costs six to seven times what fork and exec of the
// shortest command cost (BenchmarkRun, BenchmarkExec: 30 against 4.5 ms of
// processor time on a slow virtual machine), nearly all of it the start of a
// Go program, and while it lasts 1 MiB of memory beside the shared code. It
// grows with what the program does before main.
//
// Elsewhere than on Linux there is only the process group, which is good
// enough to work on belay but not to serve with it.
package executor
