package closure_test

import (
	"testing"

	"github.com/modproxy/modproxy/closure"
)

func TestRead(t *testing.T) {
	var r closure.Reader
	got, err := r.Read(t.Context(), packed(t, file("main.tf", `
module "m" {
  source  = "acme/network/aws"
  version = "~> 1.0"
}
`)), closure.Options{Client: closure.Terraform})
	if err != nil || len(got.Calls) != 1 || got.Calls[0].Source != "acme/network/aws" || got.Calls[0].Line != 2 {
		t.Errorf("Read = %+v, %v", got, err)
	}
}
