package natsserver

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// logEvery is how often warnings and errors of one class are logged.
const logEvery = 10 * time.Second

// maxClasses bounds the memory of a logger; older classes are forgotten.
const maxClasses = 256

// verbs are the formatting verbs in a message's format.
var verbs = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z%]`)

// logger passes nats-server's messages on to slog. Notices become debug
// messages: they are the server's banner. Of warnings and errors, one of a
// class is passed in ten seconds; the next one carries how many were left out.
// A fatal error, at which nats-server expects the process to end, is kept for
// Start.
type logger struct {
	log   *slog.Logger
	now   func() time.Time
	fatal chan string // capacity 1: the first counts

	mu      sync.Mutex
	classes map[string]*class
}

// class is what a logger knows of one class of messages.
type class struct {
	logged  time.Time // the last one that was passed on
	omitted int       // since then
}

// newLogger returns a logger that writes to log.
func newLogger(log *slog.Logger, now func() time.Time) *logger {
	return &logger{log: log, now: now, fatal: make(chan string, 1), classes: map[string]*class{}}
}

// Noticef logs at debug level.
func (l *logger) Noticef(format string, v ...any) { l.log.Debug(text(format, v)) }

// Debugf logs at debug level.
func (l *logger) Debugf(format string, v ...any) { l.log.Debug(text(format, v)) }

// Tracef logs at debug level.
func (l *logger) Tracef(format string, v ...any) { l.log.Debug(text(format, v)) }

// Warnf logs a warning, unless one of its class was just logged.
func (l *logger) Warnf(format string, v ...any) { l.limited(slog.LevelWarn, format, v) }

// Errorf logs an error, unless one of its class was just logged.
func (l *logger) Errorf(format string, v ...any) { l.limited(slog.LevelError, format, v) }

// Fatalf keeps the error for Start. It does not end the process.
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- text(format, v):
	default:
	}
	l.limited(slog.LevelError, format, v)
}

// limited logs a message unless one of its class was logged within logEvery.
func (l *logger) limited(level slog.Level, format string, v []any) {
	msg := text(format, v)
	omitted, ok := l.admit(classOf(format, msg))
	if !ok {
		return
	}
	if omitted > 0 {
		l.log.Log(context.Background(), level, msg, "omitted", omitted)
		return
	}
	l.log.Log(context.Background(), level, msg)
}

// admit reports whether a message of a class is to be logged now, and how
// many of it were not since the last.
func (l *logger) admit(name string) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	c := l.classes[name]
	if c != nil && now.Sub(c.logged) < logEvery {
		c.omitted++
		return 0, false
	}
	if c == nil {
		if len(l.classes) >= maxClasses {
			clear(l.classes)
		}
		c = &class{}
		l.classes[name] = c
	}
	omitted, c.omitted, c.logged = c.omitted, 0, now
	return omitted, true
}

// classOf names the class of a message: its format, or the message itself when
// the format has no words of its own.
func classOf(format, msg string) string {
	words := verbs.ReplaceAllString(format, "")
	if strings.IndexFunc(words, func(r rune) bool { return r >= 'A' && r <= 'z' }) < 0 {
		return msg
	}
	return format
}

// text formats a message as one line.
func text(format string, v []any) string {
	return oneLine(fmt.Sprintf(format, v...))
}
