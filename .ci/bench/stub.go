package main

import "context"

const (
	childBelay  = "child-belay"
	childMemory = "child-memory"
	childFill   = "child-fill"
)

func tasksCommand(context.Context, []string) error   { return nil }
func latencyCommand(context.Context, []string) error { return nil }
func memoryCommand(context.Context, []string) error  { return nil }
func belayChild(context.Context, []string) error     { return nil }
func memoryChild(context.Context, []string) error    { return nil }
