package egress_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

func TestSecretsAreNeverShown(t *testing.T) {
	secret := egress.NewSecret("hunter2")
	cred := egress.Credential{Origin: "https://a.test", Authorization: secret}
	hidden := struct{ s egress.Secret }{secret}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{secret, &secret, cred, &cred, hidden, []egress.Credential{cred}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, "hunter2") || strings.Contains(got, "68756e74657232") {
				t.Errorf("%s shows %s", verb, got)
			}
		}
	}
	if got, err := json.Marshal(map[string]any{"a": cred, "b": secret}); err != nil ||
		strings.Contains(string(got), "hunter2") {
		t.Errorf("json: %s, %v", got, err)
	}
	var read egress.Secret
	if err := json.Unmarshal([]byte(`"hunter2"`), &read); err != nil || read.Reveal() != "hunter2" ||
		read.String() != "[redacted]" {
		t.Errorf("read %q, %v", read.Reveal(), err)
	}
	if secret.IsZero() || !(egress.Secret{}).IsZero() || (egress.Secret{}).Reveal() != "" {
		t.Error("IsZero is wrong")
	}
}
