package view

import (
	"slices"

	"github.com/belay-run/belay/kv/task"
)

// code is the place of a value in a closed list, from 1; 0 is none of them.
type code uint8

func codeOf[T comparable](list []T, v T) code { return code(slices.Index(list, v) + 1) }

func valueOf[T any](list []T, c code) (v T) {
	if c > 0 {
		v = list[c-1]
	}
	return v
}

var resultStatuses = []task.ResultStatus{task.ResultSuccess, task.ResultPartial, task.ResultFailure, task.ResultNeedsInput}

// state is the task's state; only those of the list are indexed.
func (e *entry) state() task.State { return valueOf(task.States, e.stateCode) }

// kind is the name of the task's kind, even one that the list does not have.
func (e *entry) kind() task.KindName {
	if e.kindCode == 0 && e.result != nil {
		return e.result.kind
	}
	return valueOf(task.KindNames, e.kindCode)
}

// resultStatus is what the command said, even if the list does not have it.
func (e *entry) resultStatus() task.ResultStatus {
	if e.statusCode == 0 && e.result != nil {
		return e.result.status
	}
	return valueOf(resultStatuses, e.statusCode)
}
