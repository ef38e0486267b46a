// Package egress decides which addresses belay may connect to on behalf of a
// configuration that names a URL (OB-49). A name is no evidence: it can
// resolve to one address when it is checked and to another when it is used. So
// the check is made by the dialer, on the very address that it is about to
// connect to, for every connection.
//
// Denied are all addresses that are not of the public internet: unspecified,
// loopback, private, carrier-grade NAT, link-local, multicast, reserved, the
// clouds' metadata services, and the forms of IPv6 that carry any of these
// inside. With AllowPrivate, for development, loopback and private ones pass;
// metadata services and the rest never do.
package egress
