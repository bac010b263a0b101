package hint

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestWith(t *testing.T) {
	plain := errors.New("no such file")
	err := fmt.Errorf("lock: %w", With(With(plain, "inner"), "create it", "name another"))
	if got := Of(err); !slices.Equal(got, []string{"create it", "name another"}) || !errors.Is(err, plain) || err.Error() != "lock: no such file" {
		t.Errorf("%v, with the hints %q", err, got)
	}
	if Of(plain) != nil || Of(nil) != nil {
		t.Error("an error without hints has hints")
	}
	if err := With(nil, "create it"); err != nil {
		t.Errorf("With of no error = %v", err)
	}
}
