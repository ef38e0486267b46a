package config

import "strings"

// hidden stands for a part of an address that may be a secret.
const hidden = "[redacted]"

// shown is a string as people may see it: without the part of an address that
// the field's tag names.
func (f field) shown(v string) string {
	switch f.tag.Get("hide") {
	case "user":
		return redactURLs(v)
	case "query":
		return hideQuery(v)
	}
	return v
}

// redactURLs hides the user and password that addresses may carry.
func redactURLs(list string) string {
	urls := split(list)
	for i, s := range urls {
		urls[i] = hideUser(s)
	}
	return strings.Join(urls, ",")
}

func hideUser(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		return scheme + hidden + rest[at:]
	}
	return s
}

// hideQuery hides the user of an address, and what follows its question mark.
func hideQuery(s string) string {
	address, query, ok := strings.Cut(s, "?")
	address = hideUser(address)
	if ok && query != "" {
		return address + "?" + hidden
	}
	return address
}
