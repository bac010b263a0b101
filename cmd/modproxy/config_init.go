package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/store/disk"
)

func newConfigInitCommand(env *environment) *cobra.Command {
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print a configuration to start from",
		Long: `Print a commented configuration, or write it to the file of --output. It bounds
the stored packages (cache.max_size) to four fifths of what the file system of
the data directory has for them: the free bytes, and those of packages that are
stored already. Without a bound, packages can fill the disk.`,
		Example: `  modproxy config init --output modproxy.yaml --data /var/lib/modproxy
  modproxy config init > modproxy.yaml`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return env.initConfig(cmd.Context(), output, force) },
	}
	addKeyFlags(cmd, "data")
	addFlag(cmd, &output, "output", "the `file` to write; it must not exist", parseFile)
	cmd.Flags().BoolVar(&force, "force", false, "replace the file of --output if it exists")
	return withJSON(cmd, `"file", "text", "max_size_bytes"`, "")
}

// initConfig prints a configuration to start from, or writes it to a file.
func (env *environment) initConfig(ctx context.Context, output string, force bool) error {
	// The file that MODPROXY_CONFIG names may be the one to write.
	variables := slices.DeleteFunc(slices.Clone(env.variables), func(v string) bool { return strings.HasPrefix(v, "MODPROXY_CONFIG=") })
	c, err := config.Read("", variables, env.keyFlags())
	if err != nil {
		return err
	}
	size, err := boundFor(c.Data)
	if err != nil {
		return err
	}
	out := struct {
		File string `json:"file,omitempty"`
		Text string `json:"text"`
		Size int64  `json:"max_size_bytes"`
	}{output, config.Starting(c.Data, size), int64(size)}
	if output == "" {
		return env.print(out, out.Text)
	}
	if _, err := os.Lstat(output); err == nil && !force {
		return hint.With(fmt.Errorf("%s exists already", output), "--force replaces it")
	}
	err = publishFile(ctx, output, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, out.Text)
		return err
	})
	if err != nil {
		return err
	}
	return env.print(out, fmt.Sprintf("The configuration is in %s. It bounds the stored packages to %s.\n", output, size))
}

// boundFor returns a value of cache.max_size for a data directory, which need not exist.
func boundFor(data string) (config.ByteSize, error) {
	const least = 64 * config.MiB
	room, err := disk.RoomFor(data)
	if errors.Is(err, errors.ErrUnsupported) {
		return 50 << 30, nil
	}
	size := config.ByteSize(room / 5 * 4)
	switch {
	case err != nil:
		return 0, fmt.Errorf("room for packages: %w", err)
	case size >= 10<<30:
		return size >> 30 << 30, nil
	case size >= least:
		return size / config.MiB * config.MiB, nil
	}
	return 0, hint.With(fmt.Errorf("the file system of %s has only %s for packages", data, modproxy.SizeText(room)), "--data takes another directory")
}
