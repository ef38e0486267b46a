// Package redact keeps secrets out of text: out of what belay stores, logs
// and publishes. It uses the standard library only.
//
// Three things count as a secret (REQUIREMENTS §Contract with the command):
//
//   - a live value: one that a Redactor was told of, also as JSON and URLs
//     escape it;
//   - the shape of a GitHub token: ghs_ ghp_ gho_ ghu_ ghr_ github_pat_ and
//     at least 20 token characters;
//   - userinfo that starts with x-access-token: , plain or in the base64 of
//     an Authorization header.
//
// Each stretch of secret text becomes one Marker. Secrets that overlap are
// covered as a whole, so no rest of one stays behind.
//
// String and Writer run the same scanner: for any way of cutting a text into
// writes, a Writer passes on exactly what String returns. The scanner holds
// back only what may still turn out to be a secret, at most one byte less
// than the longest live value or 30 bytes.
package redact
