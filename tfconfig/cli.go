package tfconfig

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/hashicorp/hcl"

	"github.com/modproxy/modproxy/internal/durable"
)

// CLI is what a CLI configuration of a client (~/.terraformrc, ~/.tofurc, the file in TF_CLI_CONFIG_FILE) says about registries.
// Hostnames are as written.
type CLI struct {
	// Hosts are the services of each host block. The value is the URL or path of a service, or empty if it has another form, as
	// login.v1 has.
	Hosts map[string]map[string]string `json:"hosts,omitempty"`
	// Tokens are those of the credentials blocks, by host. They are secrets.
	Tokens  map[string]string `json:"tokens,omitempty"`
	Mirrors []string          `json:"mirrors,omitempty"` // URLs of network mirrors
}

// maxCLI is the maximum size of a CLI configuration, in bytes.
const maxCLI = 256 << 10

// ReadCLI reads a CLI configuration in a child. Errors: [modproxy.ErrInvalid] if a client would refuse the file,
// [modproxy.ErrUnavailable] if reading it failed for another reason; those of the file system.
func (r *Reader) ReadCLI(ctx context.Context, file string) (*CLI, error) {
	text, err := durable.ReadRegular(file, maxCLI)
	if err != nil {
		return nil, err
	}
	give, err := r.reading.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	only := Tree{each: func(f func(string, int64, io.Reader) error) error {
		return f(cliName, int64(len(text)), bytes.NewReader(text))
	}}
	answer, err := ask(ctx, only, request{Edition: edition, CLI: true})
	switch {
	case err != nil:
		return nil, err
	case answer.CLI == nil:
		return nil, errSilent
	}
	return answer.CLI, nil
}

// cliName is the name of the only file that a child receives for [Reader.ReadCLI].
const cliName = "cli"

// parseCLI reads a CLI configuration. It uses version 1 of HCL, as both clients do (internal/command/cliconfig/cliconfig.go).
func parseCLI(text []byte) (*CLI, error) {
	var file struct {
		Hosts map[string]*struct {
			Services map[string]any `hcl:"services"`
		} `hcl:"host"`
		Credentials map[string]map[string]any `hcl:"credentials"`
		// Blocks in blocks are decoded as lists of maps.
		Installation []map[string][]map[string]any `hcl:"provider_installation"`
	}
	if err := hcl.Decode(&file, string(text)); err != nil {
		return nil, invalid("%w", err)
	}
	out := &CLI{Hosts: map[string]map[string]string{}, Tokens: map[string]string{}}
	for host, block := range file.Hosts {
		out.Hosts[host] = map[string]string{}
		for name, value := range block.Services {
			out.Hosts[host][name], _ = value.(string)
		}
	}
	for host, block := range file.Credentials {
		if token, ok := block["token"]; ok {
			out.Tokens[host] = fmt.Sprint(token)
		}
	}
	for _, installation := range file.Installation {
		for _, mirror := range installation["network_mirror"] {
			url, _ := mirror["url"].(string)
			out.Mirrors = append(out.Mirrors, url)
		}
	}
	return out, nil
}
