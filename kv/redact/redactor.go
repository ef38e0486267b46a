package redact

// Marker stands in the text where a secret was.
const Marker = "[redacted-token]"
