package main

import "context"

func tasksCommand(context.Context, []string) error { return nil }
