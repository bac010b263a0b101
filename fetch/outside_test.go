package fetch_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		for in, want := range map[string]time.Duration{
			"30": 30 * time.Second,
			now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
			"999999": time.Hour,
			"0":      0, "-1": 0, "": 0, "soon": 0, "99999999999999999999": 0,
			now.Add(-time.Hour).Format(http.TimeFormat): 0,
		} {
			err := fetch.Later(modproxy.ErrUnavailable, in)
			var later *modproxy.RetryLater
			if got := errors.As(err, &later); got != (want != 0) || got && later.After.Sub(now) != want || !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("%q: %+v; want %v", in, err, want)
			}
		}
	})
}

// The error about a certificate of an unknown authority names the setting for it.
func TestUnknownAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	client, err := egress.New(egress.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get(t.Context(), egress.Request{URL: s.URL})
	err = fetch.Outgoing(err)
	if !errors.Is(err, modproxy.ErrUnavailable) || !strings.HasSuffix(err.Error(), "(operator: egress.ca_file can name the certificate authority)") {
		t.Errorf("%v", err)
	}
}

// A pause is as long as the server asks for. It does not begin if the remaining time is too short.
func TestRetry(t *testing.T) {
	for name, test := range map[string]struct {
		after, left time.Duration
		again       bool
		tries       int
		least, most time.Duration
	}{
		"passes":         {0, time.Hour, true, 5, 3750 * time.Millisecond, 7500 * time.Millisecond},
		"does not pass":  {0, time.Hour, false, 1, 0, 0},
		"asks for 4s":    {4 * time.Second, time.Hour, true, 5, 16 * time.Second, 16 * time.Second},
		"asks for 1m":    {time.Minute, time.Hour, true, 1, 0, 0},
		"no time for 4s": {4 * time.Second, 5 * time.Second, true, 2, 4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.left)
				defer cancel()
				began, tries := time.Now(), 0
				err := fetch.Retry(ctx, func() (bool, error) {
					tries++
					if test.after == 0 {
						return test.again, modproxy.ErrUnavailable
					}
					return test.again, &modproxy.RetryLater{After: time.Now().Add(test.after), Err: modproxy.ErrUnavailable}
				})
				took := time.Since(began)
				if !errors.Is(err, modproxy.ErrUnavailable) || tries != test.tries || took < test.least || took > test.most {
					t.Errorf("%d tries in %v: %v", tries, took, err)
				}
				if _, is := errors.AsType[*modproxy.Temporary](err); is != (test.again && test.after == 0) {
					t.Errorf("%#v", err)
				}
			})
		})
	}
}
