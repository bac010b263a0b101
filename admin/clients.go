package admin

import (
	"context"

	"github.com/modproxy/modproxy/tfconfig"
)

// usualClient returns the client program with the most installations through the proxy. It returns an empty client if both have
// the same number, or if no installations are counted.
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
