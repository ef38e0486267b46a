package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// DeniedError says that an address must not be connected to; nothing was sent.
type DeniedError struct {
	Addr netip.Addr
	// Why names the kind of address.
	Why string
}

// Error implements error.
func (e *DeniedError) Error() string { return fmt.Sprintf("address %s is denied: %s", e.Addr, e.Why) }

// block is a range of addresses with its kind. dev ones pass with AllowPrivate.
type block struct {
	prefix netip.Prefix
	why    string
	dev    bool
}

func b(cidr, why string, dev bool) block { return block{netip.MustParsePrefix(cidr), why, dev} }

// blocks is the table; the first that holds an address decides. What is in
// none is allowed if it is IPv4 or a global unicast address.
var blocks = []block{
	b("169.254.0.0/16", "link-local, where metadata services live", false),
	b("100.100.100.200/32", "metadata service", false),
	b("168.63.129.16/32", "metadata service", false),
	b("fd00:ec2::254/128", "metadata service", false),
	b("fd20:ce::254/128", "metadata service", false),
	b("127.0.0.0/8", "loopback", true),
	b("10.0.0.0/8", "private", true),
	b("172.16.0.0/12", "private", true),
	b("192.168.0.0/16", "private", true),
	b("100.64.0.0/10", "carrier-grade NAT", true),
	b("0.0.0.0/8", "unspecified", false),
	b("192.0.0.0/24", "protocol assignments", false),
	b("192.0.2.0/24", "documentation", false),
	b("192.88.99.0/24", "relay anycast", false),
	b("198.18.0.0/15", "benchmarking", false),
	b("198.51.100.0/24", "documentation", false),
	b("203.0.113.0/24", "documentation", false),
	b("224.0.0.0/4", "multicast", false),
	b("240.0.0.0/4", "reserved", false),
	b("::1/128", "loopback", true),
	b("fc00::/7", "unique local", true),
	b("::/128", "unspecified", false),
	b("fe80::/10", "link-local", false),
	b("fec0::/10", "site-local", false),
	b("ff00::/8", "multicast", false),
	b("64:ff9b:1::/48", "translation of a local network", false),
	b("2001::/23", "protocol assignments", false),
	b("2001:db8::/32", "documentation", false),
	b("3fff::/20", "documentation", false),
}

// Ranges of IPv6 that carry an IPv4 address, and where.
var (
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	compatible  = netip.MustParsePrefix("::/96")
	translated  = netip.MustParsePrefix("::ffff:0:0:0/96")
	globalRange = netip.MustParsePrefix("2000::/3")
)

// Check says why an address must not be connected to, as a *DeniedError.
func Check(addr netip.Addr, allowPrivate bool) error {
	a := addr.Unmap().WithZone("")
	for _, bl := range blocks {
		if !bl.prefix.Contains(a) {
			continue
		}
		if bl.dev && allowPrivate {
			return nil
		}
		return &DeniedError{Addr: addr, Why: bl.why}
	}
	if !a.IsValid() {
		return &DeniedError{Addr: addr, Why: "no address"}
	}
	if a.Is4() {
		return nil
	}
	if inner, ok := embedded(a); ok {
		if err := Check(inner, allowPrivate); err != nil {
			return &DeniedError{Addr: addr, Why: fmt.Sprintf("it carries %s", inner)}
		}
		return nil
	}
	if !globalRange.Contains(a) {
		return &DeniedError{Addr: addr, Why: "not global unicast"}
	}
	return nil
}

// embedded returns the IPv4 address that a form of IPv6 leads to.
func embedded(a netip.Addr) (netip.Addr, bool) {
	raw := a.As16()
	switch {
	case nat64.Contains(a), compatible.Contains(a), translated.Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6])), true
	}
	return netip.Addr{}, false
}

// Dialer returns a dialer that connects only to allowed addresses. resolver
// may be nil.
func Dialer(allowPrivate bool, timeout time.Duration, resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{
		Timeout:  timeout,
		Resolver: resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if network != "tcp4" && network != "tcp6" {
				return &DeniedError{Why: "network " + network}
			}
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return &DeniedError{Why: "no address"}
			}
			return Check(ap.Addr(), allowPrivate)
		},
	}
}
