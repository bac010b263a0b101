package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// healthTimeout is how long the proxy may take to answer.
const healthTimeout = 5 * time.Second

func newHealthCommand(env *environment) *cobra.Command {
	var base string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running modproxy whether it is alive",
		Long: `Request /-/healthz from the proxy that this configuration describes, or from the one
at --url, and exit with 0 if it answers 200 within 5 seconds.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := &http.Client{
				Transport:     &http.Transport{DisableKeepAlives: true}, // and no HTTP proxy
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			if base != "" {
				if err := config.CheckURL(base); err != nil {
					return misuse{fmt.Errorf("--url: %w", err)}
				}
			} else {
				c, err := env.settings()
				if err != nil {
					return err
				}
				if base, err = c.LocalURL(); err != nil {
					return err
				}
				// The request stays on this machine and has no secret, only the status of
				// its answer counts, and certificates seldom name the loopback address.
				client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			}
			if err := health(cmd.Context(), client, strings.TrimRight(base, "/")); err != nil {
				return err
			}
			_, err := fmt.Fprintln(env.stdout, "ok")
			return err
		},
	}
	cmd.Flags().StringVar(&base, "url", "", "`URL` of the proxy to ask (listen)")
	return cmd
}

func health(ctx context.Context, client *http.Client, base string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/-/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err
		}
		return hint.With(fmt.Errorf("health of %s: %w", base, err), "is modproxy running? --url says where")
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // the status is the answer
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health of %s: %s", base, resp.Status)
	}
	return nil
}
