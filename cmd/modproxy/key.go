package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/hint"
)

func newKeyCommand(env *environment) *cobra.Command {
	cmd := newGroup("key", "Replace the key that package paths are signed with", "")
	cmd.AddCommand(&cobra.Command{
		Use:   "rotate",
		Short: "Sign package paths with a new key from now on",
		Long: `Sign package paths with a new key from now on. Paths signed before stay valid until
they expire, or until the second rotation.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err == nil {
				err = admin.HaveData(c.Data)
			}
			if err != nil {
				return err
			}
			if err := auth.RotateKey(cmd.Context(), c.KeyFile(), time.Now()); err != nil {
				return hint.With(err, keyHint(err, c.Data))
			}
			_, err = fmt.Fprintln(env.stdout, "There is a new key. A proxy that serves signs with it within five seconds.")
			return err
		},
	})
	return cmd
}

// keyHint says what to do when no new key could be made.
func keyHint(err error, dir string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the first modproxy that serves with authentication makes the key"
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("the data directory %s is on a file system that is read-only: rotate the key where it can be written", dir)
	case errors.Is(err, fs.ErrPermission):
		return "run it as the owner of the data directory"
	}
	return "the old key stays valid"
}
