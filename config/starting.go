package config

import (
	"fmt"
	"reflect"
)

// Starting returns a configuration file to start from, for a data directory whose packages may use maxSize.
func Starting(data string, maxSize ByteSize) string {
	return fmt.Sprintf(starting, yamlText(reflect.ValueOf(data)), maxSize)
}

const starting = `# Configuration of modproxy, written by "modproxy config init". All other keys have
# their defaults: "modproxy config" prints every key.
#
#   modproxy config check --config modproxy.yaml
#   modproxy serve --config modproxy.yaml

# Address and port to accept connections on. On any address but a loopback address,
# clients need a token: "modproxy token create NAME --scope '*'".
listen: 127.0.0.1:8080

# URL of this proxy for clients, and the certificate for it.
# public_url: https://modules.example.com
# tls: {cert_file: cert.pem, key_file: key.pem}

# Where people get help after a denial or an error.
# contact: "platform team, #modules"

# Directory for everything that modproxy stores.
data: %s

# Registries that modproxy may contact. The first one is the default.
upstreams:
  - host: registry.terraform.io
  - host: registry.opentofu.org

cache:
  # Maximum total size of stored packages. The least recently used ones are evicted
  # first. This bound leaves a fifth of the room that the file system of data had for
  # packages.
  max_size: %s

log:
  level: info
`
