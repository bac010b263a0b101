package config

import _ "embed"

// Schema is the JSON Schema (draft 7) of a configuration file. go test -update derives it from the fields of [Config].
//
//go:embed schema.json
var Schema []byte
