package egress_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/relay/egress"
)

// always are denied whatever is configured, dev only without AllowPrivate.
var (
	always = []string{
		"0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1",
		"192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "::", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254",
		"::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "::169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe",
		"2002:a9fe:a9fe::1", "64:ff9b:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1", "100::1", "4000::1",
	}
	dev = []string{
		"127.0.0.1", "127.255.255.254", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1",
		"100.127.255.255", "::1", "fc00::1", "fd12:3456::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1",
		"64:ff9b::7f00:1", "2002:7f00:1::", "2002:c0a8:101::1", "::127.0.0.1", "::ffff:0:10.0.0.1",
	}
	public = []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
		"169.253.255.255", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:0101:0101::1",
	}
)

func TestOB49Table(t *testing.T) {
	t.Parallel()
	for _, a := range always {
		var denied *egress.DeniedError
		require.ErrorAs(t, egress.Check(netip.MustParseAddr(a), false), &denied, a)
		require.ErrorAs(t, egress.Check(netip.MustParseAddr(a), true), &denied, a)
		require.NotEmpty(t, denied.Why)
	}
	for _, a := range dev {
		require.Error(t, egress.Check(netip.MustParseAddr(a), false), a)
		require.NoError(t, egress.Check(netip.MustParseAddr(a), true), a)
	}
	for _, a := range public {
		require.NoError(t, egress.Check(netip.MustParseAddr(a), false), a)
	}
	require.Error(t, egress.Check(netip.Addr{}, true))
}

// The address that is dialled decides, whatever name led to it, and before
// anything is sent.
func TestOB49DialerLooksAtTheActualAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	for _, host := range []string{"127.0.0.1", "localhost"} {
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		_, err = egress.Dialer(false, time.Second, nil).DialContext(context.Background(), "tcp", net.JoinHostPort(host, port))
		var denied *egress.DeniedError
		require.ErrorAs(t, err, &denied, host)
		require.Contains(t, denied.Error(), "loopback")
		c, err := egress.Dialer(true, time.Second, nil).DialContext(context.Background(), "tcp4", net.JoinHostPort(host, port))
		require.NoError(t, err, host)
		require.NoError(t, c.Close())
	}
	_, err = egress.Dialer(true, time.Second, nil).DialContext(context.Background(), "udp", "127.0.0.1:53")
	require.Error(t, err, "only TCP")
}
