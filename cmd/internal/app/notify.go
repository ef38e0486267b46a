package app

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// notifier tells systemd how a Type=notify service stands (sd_notify(3)). It
// does nothing where no NOTIFY_SOCKET is given.
type notifier struct{ socket string }

// states of a service, as sd_notify(3) writes them.
const (
	notifyReady     = "READY=1"
	notifyStopping  = "STOPPING=1"
	notifyReloading = "RELOADING=1"
)

// extend asks for more time to start or stop, in microseconds.
func extend(d time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds())
}

func (n notifier) send(states ...string) error {
	if n.socket == "" {
		return nil
	}
	addr := n.socket
	if strings.HasPrefix(addr, "@") { // an abstract socket
		addr = "\x00" + addr[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	_, err = c.Write([]byte(strings.Join(states, "\n")))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// every repeats a state until stop is closed, at once and then twice in its
// span: a store of many gigabytes recovers longer than a start may take (J19).
func (n notifier) every(span time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(span / 2)
	defer tick.Stop()
	for {
		_ = n.send(extend(span))
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}
