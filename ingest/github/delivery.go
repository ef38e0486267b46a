package github

import "github.com/belay-run/belay/kv/task"

const maxDeliveryID = 128

// ParseDeliveryID checks the value of X-GitHub-Delivery against
// `^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`, so that it may stand in a message id
// (G02, DT-60). Errors are ErrMissingDelivery and ErrInvalidDelivery.
func ParseDeliveryID(s string) (task.DeliveryID, error) {
	if s == "" {
		return "", ErrMissingDelivery
	}
	if len(s) > maxDeliveryID || !alphanumeric(s[0]) {
		return "", ErrInvalidDelivery
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !alphanumeric(c) && c != '_' && c != '-' {
			return "", ErrInvalidDelivery
		}
	}
	return task.DeliveryID(s), nil
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
