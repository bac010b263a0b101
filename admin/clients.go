package admin

import (
	"context"

	"github.com/modproxy/modproxy/closure"
)

// usualClient returns the client that installs most through the proxy, or an empty one if that is not known.
func (s *Server) usualClient(ctx context.Context, _ none, _ func(none)) (closure.Client, error) {
	if s.Programs == nil {
		return "", nil
	}
	all, err := s.Programs.Programs(ctx)
	switch terraform, tofu := all["Terraform"], all["OpenTofu"]; {
	case err != nil:
		return "", err
	case terraform > tofu:
		return closure.Terraform, nil
	case tofu > terraform:
		return closure.OpenTofu, nil
	}
	return "", nil
}
