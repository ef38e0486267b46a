// Package natstest gives each test a nats-server of its own: embedded, on a
// fresh directory, with the streams of streams.json and an in-process
// connection. It takes milliseconds, needs no port, and is the same server
// that `belay serve` runs.
//
//	env := natstest.New(t)
//	env.JS.Publish(ctx, "webhook.1.2.task.review", data)
//
// Unless WithSyncAlways is given, messages are not synced one by one.
package natstest
