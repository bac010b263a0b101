package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// TestPolicyRecordsStay: records without a keeper, such as requests and first-seen times, stay when packages are evicted,
// verified, rebuilt or removed.
func TestPolicyRecordsStay(t *testing.T) {
	c, ctx := newOffline(t), t.Context()
	c.Cache.MaxSize, c.Offline = 20, false // room for two packages
	book, err := ledger.Open(c.LedgerDir())
	must(t, err)
	for _, seed := range []string{"1", "2", "3"} {
		must(t, book.Add(ctx, recordOf(seed+".0.0", seed)))
	}
	must(t, book.Close())
	keepIn(t, c, "1", "1.0.0")
	a := inside(c, Options{})
	must(t, a.openDisk(t.Context(), disk.Options{}))
	a.openStore(nil)
	r := history.NewDemand(a.Store.Records, history.PendingKind, nil)
	r.Add(vpc.At("2.0.0"), modproxy.Client{DisplayName: "ci"})
	must(t, r.Write(ctx))
	_, err = a.Store.Records.Put(ctx, store.Record{Ref: store.Ref{Kind: history.FirstSeenKind, Key: vpc.String()}, Value: []byte(`{"versions":{}}`)})
	must(t, err)
	keep(t, a.Store, "2", "2.0.0") // exceeds the size, so packages are evicted
	keep(t, a.Store, "3", "3.0.0")
	must(t, a.Close())

	stay := func(when string) {
		t.Helper()
		a := inside(c, Options{})
		must(t, a.openDisk(t.Context(), disk.Options{}))
		a.openStore(nil)
		got := map[store.Kind]string{}
		for rec, err := range a.Store.Records.List(ctx, "", "") {
			must(t, err)
			got[rec.Kind] += rec.Key
		}
		if got[history.PendingKind] != vpc.At("2.0.0").String() || got[history.FirstSeenKind] != vpc.String() {
			t.Errorf("after %s there are %v", when, got)
		}
		if strings.Contains(got[cache.PackageKind], "1.0.0") {
			t.Errorf("after %s nothing was evicted", when)
		}
		must(t, a.Close())
	}
	stay("evicting")
	api := func(f func(*admin.Client) error) {
		t.Helper()
		client, done, err := OpenAPI(ctx, c, admin.UsePackages, Options{})
		must(t, err)
		must(t, errors.Join(f(client), done()))
	}
	api(func(client *admin.Client) error {
		out, err := admin.PackagesVerify.Call(ctx, client, admin.VerifyRequest{ReadData: true, Repair: true}, func(admin.VerifyLine) error { return nil })
		if out.Records < 3 {
			t.Errorf("verified: %+v", out)
		}
		return err
	})
	stay("verify")
	_, err = Rebuild(ctx, c)
	must(t, err)
	stay("rebuild")
	api(func(client *admin.Client) error {
		out, err := admin.PackagesCollect.Call(ctx, client, store.Collection{MaxSize: 1}, nil)
		if err == nil && out.Kept != 0 {
			err = errors.New("packages are left")
		}
		return err
	})
	stay("gc")
}
