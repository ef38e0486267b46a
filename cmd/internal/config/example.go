package config

import _ "embed"

// Example is the text of a file with every key, each explained.
//
//go:embed example.toml
var Example string
