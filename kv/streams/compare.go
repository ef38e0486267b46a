package streams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// reservedMetadata is the prefix of metadata that the server writes.
const reservedMetadata = "_nats."

// streamDefaults are the values that the server fills in for a field that is
// absent, zero or empty.
var streamDefaults = map[string]string{
	"max_consumers":        "-1",
	"max_msgs":             "-1",
	"max_bytes":            "-1",
	"max_msgs_per_subject": "-1",
	"max_msg_size":         "-1",
	"num_replicas":         "1",
	"duplicate_window":     "120000000000",
}

// consumerDefaults are the same for a consumer.
var consumerDefaults = map[string]string{
	"max_deliver":     "-1",
	"ack_wait":        "30000000000",
	"max_ack_pending": "1000",
	"max_waiting":     "512",
}

// Field is one setting that differs: its name in NATS's JSON, and both values
// as JSON; "" stands for a value that is not set.
type Field struct {
	Name, Have, Want string
}

// desiredStream is what a stream is to become: the file's settings, with what
// belongs to the operator taken from the server.
func desiredStream(want, have jetstream.StreamConfig) jetstream.StreamConfig {
	want.Metadata = mergeMetadata(want.Metadata, have.Metadata)
	if want.Placement == nil {
		want.Placement = have.Placement
	}
	return want
}

// desiredConsumer is the same for a consumer.
func desiredConsumer(want, have jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	want.Metadata = mergeMetadata(want.Metadata, have.Metadata)
	want.PauseUntil = have.PauseUntil
	return want
}

// mergeMetadata adds the keys of other owners to those of the file.
func mergeMetadata(want, have map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range have {
		if !strings.HasPrefix(k, reservedMetadata) {
			out[k] = v
		}
	}
	maps.Copy(out, want)
	if len(out) == 0 {
		return nil
	}
	return out
}

// compareStreams lists the settings in which two streams differ.
func compareStreams(want, have jetstream.StreamConfig) ([]Field, error) {
	w, err := settings(want, streamDefaults)
	if err != nil {
		return nil, err
	}
	h, err := settings(have, streamDefaults)
	if err != nil {
		return nil, err
	}
	return differences(w, h, streamDefaults), nil
}

// compareConsumers lists the settings in which two consumers differ.
func compareConsumers(want, have jetstream.ConsumerConfig) ([]Field, error) {
	want.Name, have.Name = "", "" // the server repeats the durable name
	w, err := settings(want, consumerDefaults)
	if err != nil {
		return nil, err
	}
	h, err := settings(have, consumerDefaults)
	if err != nil {
		return nil, err
	}
	return differences(w, h, consumerDefaults), nil
}

// settings flattens a configuration to its JSON fields, without those that are
// at their default and without what the server itself adds.
func settings(cfg any, defaults map[string]string) (map[string]string, error) {
	b, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("decode configuration: %w", err)
	}
	out := map[string]string{}
	for name, value := range raw {
		v, err := canonical(name, value)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		if v != "" && v != defaults[name] {
			out[name] = v
		}
	}
	return out, nil
}

// canonical returns a value as comparable JSON; "" when it is empty. Lists of
// subjects have no order, and the server's own metadata is not compared.
func canonical(name string, value json.RawMessage) (string, error) {
	switch name {
	case "subjects", "filter_subjects":
		var list []string
		if err := json.Unmarshal(value, &list); err != nil {
			return "", err
		}
		slices.Sort(list)
		value, _ = json.Marshal(list) // strings always encode
	case "metadata":
		var m map[string]string
		if err := json.Unmarshal(value, &m); err != nil {
			return "", err
		}
		maps.DeleteFunc(m, func(k, _ string) bool { return strings.HasPrefix(k, reservedMetadata) })
		value, _ = json.Marshal(m) // strings always encode
	}
	switch v := string(bytes.TrimSpace(value)); v {
	case "null", `""`, "0", "false", "[]", "{}":
		return "", nil
	default:
		return v, nil
	}
}

// differences lists, by name, the fields that are not equal.
func differences(want, have, defaults map[string]string) []Field {
	shown := func(name, value string) string {
		if value == "" {
			return defaults[name]
		}
		return value
	}

	names := map[string]bool{}
	for n := range want {
		names[n] = true
	}
	for n := range have {
		names[n] = true
	}
	var out []Field
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if want[n] != have[n] {
			out = append(out, Field{Name: n, Have: shown(n, have[n]), Want: shown(n, want[n])})
		}
	}
	return out
}
