package admin

import (
	"context"

	"github.com/modproxy/modproxy/tfconfig"
)

// usualClient returns the client that installs most through the proxy, or an empty one if that is not known.
func (s *Server) usualClient(ctx context.Context, _ none, _ func(none)) (tfconfig.Client, error) {
	if s.Programs == nil {
		return "", nil
	}
	all, err := s.Programs.Programs(ctx)
	switch terraform, tofu := all["Terraform"], all["OpenTofu"]; {
	case err != nil:
		return "", err
	case terraform > tofu:
		return tfconfig.Terraform, nil
	case tofu > terraform:
		return tfconfig.OpenTofu, nil
	}
	return "", nil
}
