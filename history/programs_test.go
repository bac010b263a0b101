package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/store/storetest"
)

// Installations count for their program for 30 days, in all processes. Other programs do not count.
func TestPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := new(storetest.Memory).Records()
		r := newCounting(records, nil)
		end := run(r)
		locate := func(program string, n int) {
			t.Helper()
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Program: program})
			for range n {
				if _, err := r.Location(ctx, vpc.At("1.0.0")); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := func(what string, d *history.Downloads, text string) {
			t.Helper()
			all, err := d.Programs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, what, fmt.Sprint(all), text)
		}
		locate("Terraform/1.15.0", 3)
		locate("OpenTofu/1.12.6", 2)
		locate("curl/8.0", 5)
		locate("", 5)
		want("not recorded yet", r.Downloads, "map[OpenTofu:2 Terraform:3]")
		time.Sleep(time.Minute)
		want("recorded", history.NewDownloads(records, nil), "map[OpenTofu:2 Terraform:3]")
		time.Sleep(20 * 24 * time.Hour)
		locate("OpenTofu/1.12.6", 2)
		want("later", r.Downloads, "map[OpenTofu:4 Terraform:3]")
		end()
		time.Sleep(15 * 24 * time.Hour)
		want("of the last 30 days", history.NewDownloads(records, nil), "map[OpenTofu:2]")
	})
}
