// Package github is the pure part of the webhook door: it checks a signature,
// names a delivery, reads the few fields of an event that routing needs, and
// decides what becomes of it. It knows no store, no HTTP and no clock.
//
//	body, headers ─▶ Verify ─▶ ParseDeliveryID, Payload ─▶ Decode ─▶ Route ─▶ task.Delivery
//
// Guarantees. Nothing here panics on any input, and nothing is kept of a body
// but bounded copies: an Event never refers to the bytes it was read from. A
// field that is absent, null, of another type or of impossible form is one
// thing, absent; only a body that is not a JSON object is refused. Route is a
// function of its arguments alone, so the same delivery is decided alike on
// every process. Names that reach keys, paths and headers (repository, login,
// commit, address) are held to their own alphabets in Decode; free text goes
// only into the fields of task.Kind, never into an identifier, a reply or an
// argument of a command (G39).
//
// Precedence. The ignore reasons are tried in the order of task.Reasons. A
// lane first says what an event asks for, whatever is switched off; only then
// do the gates (too_old, scope, no_github_app) refuse it, so an operator can
// tell "switched off" from "not meant for us" (unroutable).
//
// Decoding. The scanner is our own: one pass that checks the syntax of the
// whole body like encoding/json (same depth limit, same leniency for bad
// UTF-8, last duplicate wins) and stops to look only at the paths it knows.
// TestDecodeProperty and FuzzDecode hold it against encoding/json. It was
// chosen by measurement; on one machine a pull_request body of 13 KB took
//
//	this scanner, all fields                   12 µs
//	HMAC-SHA256 of the body                    10 µs
//	go-json-experiment jsontext, tokens alone  24 µs
//	tidwall/gjson, ValidBytes and GetMany      83 µs
//	encoding/json into a struct of the fields 100 µs
//
// The first library is declared unstable, and the second takes the first of
// two fields of one name and recurses without a limit. BenchmarkDecode repeats
// the comparison with what the standard library has.
package github
