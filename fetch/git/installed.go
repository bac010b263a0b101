package git

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/modproxy/modproxy"
)

// Installed returns an error, [modproxy.ErrUnavailable], unless git is in PATH and new enough.
func Installed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	name, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("%w: git is not in PATH", modproxy.ErrUnavailable)
	}
	text, err := exec.CommandContext(ctx, name, "version").Output()
	if err != nil {
		return fmt.Errorf("%w: %s version: %w", modproxy.ErrUnavailable, name, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(text), "git version %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%w: %s does not say its version", modproxy.ErrUnavailable, name)
	}
	if major < 2 || major == 2 && minor < 31 {
		return fmt.Errorf("%w: git is version %d.%d: want 2.31 or newer", modproxy.ErrUnavailable, major, minor)
	}
	return nil
}
