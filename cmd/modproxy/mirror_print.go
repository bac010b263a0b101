package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/static"
)

// mirror mirrors the selection and prints the progress and the results. failed are earlier problems.
func (env *environment) mirror(ctx context.Context, in mirror.Request, f mirrorFlags, failed problems) (err error) {
	q := admin.MirrorFetch
	if f.check {
		q = admin.MirrorCheck
	} else if err := env.makeData(); err != nil { // a connected side may start with a mirror
		return err
	}
	var site *siteWriter
	if f.toDir != "" {
		to, err := static.Open(f.toDir, f.unpacked)
		if err != nil {
			return err
		}
		site, in.Content, in.Have, in.HaveDirectories = &siteWriter{site: to}, true, to.Has(), to.HasDirectories()
	}
	before := failed
	for _, err := range before {
		if err := env.item(mirror.Line{Problem: &mirror.Note{Text: err.Error()}}, ""); err != nil {
			return err
		}
	}
	progress := newProgress(env.rawErr)
	defer progress.clear()
	done, err := ask(ctx, env, q, in, func(line mirror.Line) error {
		if site != nil {
			site.take(line)
		}
		switch {
		case line.Data != nil:
			return nil
		case line.Progress != nil:
			progress.show(mirrorText(*line.Progress))
			return nil
		case line.Package != nil:
			line.Package.Data = false // readers of this output get no content
		case line.Problem != nil, f.strict && line.Bypass != nil:
			failed = append(failed, errors.New(printable(cmp.Or(line.Problem, line.Bypass).String())))
		}
		progress.clear()
		if line.Bypass != nil && !f.strict && !env.json() {
			_, err := fmt.Fprintln(env.stderr, "past modproxy: "+printable(line.Bypass.String()))
			return err
		}
		return env.item(line, mirrorLineText(line, f.check))
	})
	progress.clear()
	switch {
	case ctx.Err() != nil:
		return hint.With(errors.New("ended by a signal before it was done"), "fetched packages are cached: run the same command again to continue")
	case err != nil:
		return err
	}
	done.Problems += len(before)
	if env.json() {
		err = env.end(done, "")
	} else {
		_, err = fmt.Fprintln(env.stderr, doneText(done, f))
	}
	if site != nil && err == nil {
		err = site.finish(env, f.toDir)
	}
	if all, ok := errors.AsType[problems](err); ok || err == nil {
		if failed = append(failed, all...); len(failed) > 0 {
			return failed
		}
	}
	return err
}

// mirrorLineText describes a stored package, or, in a check, a missing one.
func mirrorLineText(line mirror.Line, check bool) string {
	switch {
	case check && line.Problem != nil && line.Problem.Lacks != "":
		return line.Problem.Lacks + "\n"
	case check || line.Package == nil:
		return ""
	}
	name := strings.TrimSpace(line.Package.Module + " " + line.Package.Version + " " + line.Package.Platform)
	if line.Package.Fetched {
		return fmt.Sprintf("%s: fetched, %s\n", name, modproxy.SizeText(line.Package.Size))
	}
	return name + ": cached\n"
}

// mirrorText describes the progress of a mirror in one line.
func mirrorText(m mirror.Progress) string {
	s := fmt.Sprintf("%s requested; %s fetched, %s; %d cached before",
		count(m.Requested, "version list"), count(m.Fetched, "package"), modproxy.SizeText(m.Bytes), m.Kept)
	if m.Bypasses > 0 {
		s += fmt.Sprintf("; %d past modproxy", m.Bypasses)
	}
	if m.Problems > 0 {
		s += "; " + count(m.Problems, "problem")
	}
	if done := m.Requested + m.Fetched + m.Kept; m.Left > 0 && done > 0 {
		left := time.Duration(m.Seconds / float64(done) * float64(m.Left) * float64(time.Second))
		s += fmt.Sprintf("; about %v left", max(left.Round(time.Second), time.Second))
	}
	return s
}

// doneText describes the result of a mirror or a check.
func doneText(m mirror.Progress, f mirrorFlags) string {
	if !f.check {
		return mirrorText(m)
	}
	s := fmt.Sprintf("%s cached", count(m.Kept+m.Fetched, "package"))
	if m.Bypasses > 0 {
		s += fmt.Sprintf("; %d past modproxy", m.Bypasses)
	}
	return s + "; " + count(m.Problems, "problem")
}
