package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
)

// Configuration implements [admin.Process].
func (p process) Configuration() (all []admin.ConfigKey, err error) {
	keys, err := p.app.inForce.Load().Describe()
	for _, k := range keys {
		all = append(all, admin.ConfigKey(k))
	}
	return all, err
}

// reloadTimeout is the time limit for a reload that an operator requests, which may wait for another one.
const reloadTimeout = 10 * time.Second

// Reload implements [admin.Process].
func (p process) Reload(ctx context.Context) (admin.Reloaded, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reloadTimeout, fmt.Errorf("%w: modproxy is busy or shuts down: try again", modproxy.ErrUnavailable))
	defer cancel()
	answer := make(chan reloadResult, 1)
	select {
	case p.app.reloads <- answer:
	case <-ctx.Done():
		return admin.Reloaded{}, context.Cause(ctx)
	}
	out := <-answer
	if out.err != nil {
		out.err = fmt.Errorf("%w: %w", modproxy.ErrInvalid, out.err)
	}
	return out.Reloaded, out.err
}

// LogLevel implements [admin.Process].
func (p process) LogLevel() admin.LogLevel {
	return admin.LogLevel{Level: p.app.logLevel.String(), Configured: p.app.config.Log.Level}
}

// logLevels are the values of log.level.
var logLevels = []string{"debug", "info", "warn", "error"}

// SetLogLevel implements [admin.Process].
func (p process) SetLogLevel(level string) error {
	if !slices.Contains(logLevels, level) {
		return fmt.Errorf("%w: log level: want debug, info, warn or error, not %.80q", modproxy.ErrInvalid, level)
	}
	a := p.app
	set, _ := zapcore.ParseLevel(level) // one of logLevels
	before := a.logLevel.String()
	a.logLevel.SetLevel(min(set, a.logLevel.Level())) // so that the entry is logged if one of the levels allows it
	logEvent(a.log, "log_level", nil, zap.String("before", before), zap.String("now", level))
	a.logLevel.SetLevel(set)
	return nil
}

// operatorTokens implements [admin.Tokens]. It logs changes, because the log entries of requests do not have them.
type operatorTokens struct {
	*auth.Tokens
	*App
}

// tokens returns the tokens for the operator's API, or nil if they could not be read at the start.
func (a *App) tokens() admin.Tokens {
	for _, clients := range []*auth.Authenticator{a.auth, a.operators} {
		if clients != nil && clients.Tokens != nil {
			return operatorTokens{clients.Tokens, a}
		}
	}
	return nil
}

// Create implements [admin.Tokens].
func (t operatorTokens) Create(ctx context.Context, spec auth.Token) (text string, made auth.Token, err error) {
	if err := auth.MakeDir(filepath.Dir(t.config.TokensFile())); err != nil {
		return "", made, err
	}
	if text, made, err = t.Tokens.Create(ctx, spec); err == nil {
		logEvent(t.log, "token_created", nil, tokenFields(ctx, made)...)
	}
	return text, made, err
}

// Revoke implements [admin.Tokens].
func (t operatorTokens) Revoke(ctx context.Context, idOrName string) (auth.Token, error) {
	revoked, err := t.Tokens.Revoke(ctx, idOrName)
	if err == nil {
		logEvent(t.log, "token_revoked", nil, tokenFields(ctx, revoked)...)
	}
	return revoked, err
}

// tokenFields returns the log fields for a change of a token by the principal of ctx.
func tokenFields(ctx context.Context, t auth.Token) []zap.Field {
	return []zap.Field{
		zap.String("name", t.Name), zap.String("id", t.ID), zap.Stringers("scopes", t.Scopes), zap.Bool("admin", t.Admin),
		zap.Bool("refresh", t.Refresh), unless(t.Expires.IsZero(), zap.Time("expires", t.Expires)),
		zap.String("by", auth.PrincipalOf(ctx).String()),
	}
}
