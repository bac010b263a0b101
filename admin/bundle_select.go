package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/mirror"
)

// selection is what an export chooses.
type selection struct {
	*Server
	list    []modproxy.Ref
	refused func(modproxy.Ref, error)
}

// selected returns the versions that in chooses, in order.
func (s *Server) selected(
	ctx context.Context, in Export, each func(Exported), refused func(modproxy.Ref, error),
) ([]modproxy.Ref, error) {
	sel := &selection{Server: s, refused: refused}
	if !in.Closure && len(in.Wanted)+len(in.Locked) == 0 {
		if _, err := sel.add(ctx, modproxy.Address{}, selecting(modproxy.Constraint{})); err != nil {
			return nil, err
		}
	}
	for _, one := range in.Wanted {
		if err := sel.wanted(ctx, one); err != nil {
			return nil, err
		}
	}
	for _, l := range in.Locked {
		v, err := l.Parse("")
		if err != nil {
			return nil, err
		}
		rec, err := modproxy.LookupAs(ctx, s.Ledger, v, l.Sum)
		if err == nil && !rec.Is(l.Sum, l.Subdir) {
			refused(v, fmt.Errorf("the ledger has %s, and %s has %s", rec.Sum, l.At, l.Sum))
		} else if err := sel.exact(ctx, v); err != nil { // what has no record is not kept
			return nil, err
		}
	}
	var called []versionname.Name
	if _, err := s.engine().Check(ctx, mirror.Request{Starts: in.Starts, Providers: true, Groups: in.Groups}, func(line mirror.Line) {
		switch {
		case line.Package != nil:
			called = append(called, line.Package.Name)
		case line.Progress == nil:
			each(Exported{Bypass: line.Bypass, Problem: line.Problem})
		}
	}); err != nil {
		return nil, err
	}
	for _, name := range called {
		v, err := name.Parse("")
		if err == nil {
			err = sel.exact(ctx, v)
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(sel.list, func(a, b modproxy.Ref) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(sel.list), nil
}

// readable returns the versions of a list whose content is for the caller. If there are others only, it returns the reason.
func (s *Server) readable(ctx context.Context, list []modproxy.Ref, refused func(modproxy.Ref, error)) (
	readable []modproxy.Ref, err error,
) {
	why := map[modproxy.Ref]error{}
	for _, v := range list {
		if errRead := s.mayRead(ctx, v.Address); errRead != nil {
			why[v], err = errRead, cmp.Or(err, errRead)
		} else {
			readable = append(readable, v)
		}
	}
	if len(readable) == 0 {
		return nil, err
	}
	for _, v := range list {
		if why[v] != nil {
			refused(v, why[v])
		}
	}
	return readable, nil
}

// add adds what is kept of a module, or of all, and is selected. What is made again for the public URL there stays here.
func (s *selection) add(ctx context.Context, m modproxy.Address, selects func(modproxy.Ref) bool) (found bool, err error) {
	for l, err := range s.Cache.List(ctx, m) {
		switch {
		case l.Version == "" && err != nil:
			return found, err
		case err != nil:
			s.refused(l.Ref, err)
		case !l.Superseded && l.Variant.Kind != modproxy.RewrittenVariant && selects(l.Ref):
			found, s.list = true, append(s.list, l.Ref)
		}
	}
	return found, nil
}

// selecting returns a function that reports whether c selects a version.
func selecting(c modproxy.Constraint) func(modproxy.Ref) bool {
	return func(v modproxy.Ref) bool {
		version, err := modproxy.ParseVersion(v.Version)
		return err == nil && c.Selects(version)
	}
}

// exact adds a version, or what v was made of, and all that was made of that.
func (s *selection) exact(ctx context.Context, v modproxy.Ref) error {
	v = v.Base()
	s.list = append(s.list, v)
	_, err := s.add(ctx, v.Address, func(kept modproxy.Ref) bool {
		return kept.Base() == v && !kept.IsListed()
	})
	return err
}

func (s *selection) wanted(ctx context.Context, one Wanted) error {
	m, err := hostname.ParseAddress(one.Module, "")
	if err != nil {
		return err
	}
	var c modproxy.Constraint // which selects all
	if one.Versions != "" {
		if c, err = modproxy.ParseConstraint(one.Versions); err != nil {
			return err
		}
	}
	found, err := s.add(ctx, m, selecting(c))
	if err == nil && !found {
		s.refused(m.At(""), fmt.Errorf("no version of it is kept that was selected: %s", strings.TrimSpace(m.String()+" "+one.Versions)))
	}
	return err
}
