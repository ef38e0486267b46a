package github

import "errors"

// The errors that the door answers; their texts are the client's (REQUIREMENTS §API).
var (
	// ErrMissingSignature means there is no X-Hub-Signature-256: 401.
	ErrMissingSignature = errors.New("missing signature")
	// ErrInvalidSignature means no configured secret made the signature: 401.
	ErrInvalidSignature = errors.New("invalid signature")
	// ErrMissingDelivery means there is no X-GitHub-Delivery: 400.
	ErrMissingDelivery = errors.New("missing delivery id")
	// ErrInvalidDelivery means X-GitHub-Delivery cannot be an id: 400.
	ErrInvalidDelivery = errors.New("invalid delivery id")
	// ErrParse means the body is no JSON object, nor a form that holds one:
	// 400. What wraps it says where, without quoting the body.
	ErrParse = errors.New("parse error")
)
