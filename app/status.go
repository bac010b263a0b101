package app

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/upstream/ask"
)

// Status implements [admin.Process]. It sends no request to registries.
func (p process) Status(ctx context.Context) admin.Status {
	a, c := p.app, p.app.config
	out := admin.Status{
		Version: a.options.Version, Time: time.Now().UTC(), Started: a.started.UTC(), URL: a.BaseURL(), Data: Absolute(c.Data), Config: a.options.ConfigFile,
		Offline: c.Offline, Ready: true, Upstreams: a.upstreamsStatus(), Downloads: []admin.Download{},
	}
	for _, problem := range p.Problems() {
		out.Ready = out.Ready && problem.Minor
		shown := admin.StatusProblem{Problem: problem.State}
		if problem.Err != nil {
			shown.Error = problem.Err.Error()
		}
		out.Problems = append(out.Problems, shown)
	}
	out.Room.Stored, out.Room.Reserved = a.Store.Usage()
	out.Room.Max = int64(c.Cache.MaxSize)
	if aside, err := a.disk.Quarantined(ctx, 0); err == nil {
		out.Room.Quarantined = aside.Bytes
	}
	if use, ok := a.disk.FileSystem(); ok {
		out.Room.DiskFree, out.Room.DiskFull = use.Free, use.Full()
	}
	for v, began := range a.Cache.Downloads() {
		out.Downloads = append(out.Downloads, admin.Download{Name: versionname.Of(v), Began: began.UTC()})
	}
	slices.SortFunc(out.Downloads, func(x, y admin.Download) int {
		return cmp.Or(x.Began.Compare(y.Began), cmp.Compare(x.Shown(), y.Shown()))
	})
	return out
}

// upstreamsStatus returns the health of the configured upstreams in their order, then that of other registries with a question, then
// that of the forges of own modules.
func (a *App) upstreamsStatus() []admin.UpstreamStatus {
	var known map[string]ask.Health
	unknown := admin.UpstreamOffline
	if a.upstreams != nil {
		known, unknown = a.upstreams.Health(), admin.UpstreamUnknown
	}
	all := []admin.UpstreamStatus{}
	for _, u := range a.config.Upstreams {
		if u.Host != "*" {
			all = append(all, upstreamStatus(u.Host, known[u.Host], unknown))
			delete(known, u.Host)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(known)) {
		all = append(all, upstreamStatus(host, known[host], unknown))
	}
	if a.own != nil {
		forges := a.own.Health()
		for _, host := range slices.Sorted(maps.Keys(forges)) {
			forge := upstreamStatus(host, forges[host], unknown)
			forge.Service, forge.Namespace, forge.Repository = admin.ForgeService, "", forges[host].Part
			all = append(all, forge)
		}
	}
	return all
}

// upstreamStatus returns the health h of a registry. Its state is unknown if h is zero.
func upstreamStatus(host string, h ask.Health, unknown admin.UpstreamState) admin.UpstreamStatus {
	out := admin.UpstreamStatus{
		Host: host, State: admin.UpstreamAnswers, Answered: h.Answered.UTC(), Failed: h.Failed.UTC(), Down: h.Down.UTC(),
		Service: h.Service, Namespace: h.Part, Error: h.Why,
	}
	switch {
	case !h.Down.IsZero():
		out.State = admin.UpstreamUnavailable
	case h.Why != "":
		out.State = admin.UpstreamFailing
	case h.Answered.IsZero():
		out.State = unknown
	}
	return out
}
