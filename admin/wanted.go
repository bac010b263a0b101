package admin

import (
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/clean"
)

// wantedOf returns what fetches f, as a line of a list that "modproxy mirror -f" reads: ADDRESS[//SUBDIR][@CONSTRAINT], and the
// platform of a provider. A stranger wrote the directory and the constraint. The line has the constraint in canonical form, and
// is empty if the constraint cannot be read; it names the whole module if the directory does not fit into a line.
func wantedOf(f closure.Found) string {
	of := f.Module.Base()
	line := f.Module.Address.String()
	if f.Subdir != "." && f.Module.IsListed() && fitsList(f.Subdir) {
		line += "//" + f.Subdir
	}
	switch {
	case of.Version != "":
		line += "@" + of.Version
	case f.Constraint != "":
		c, err := modproxy.ParseConstraint(f.Constraint)
		if err != nil {
			return ""
		}
		line += "@" + c.Canonical()
	}
	return strings.TrimSpace(line + " " + NameOf(f.Module).Platform)
}

// fitsList reports whether a list has a directory as it is: nothing in it ends a line, begins a constraint or is a platform.
func fitsList(dir string) bool { return clean.Text(dir) == dir && !strings.ContainsAny(dir, "@ ") }
