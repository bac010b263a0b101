package rig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/hostname"
)

// Installed returns the versions of modules that a client has installed for the configuration in dir: "MODULE VERSION",
// folded and sorted, each once.
func Installed(dir string) (list []string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, ".terraform", "modules", "modules.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Modules []struct{ Source, Version string }
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	for _, m := range manifest.Modules {
		if m.Version == "" {
			continue
		}
		address, _, _ := strings.Cut(m.Source, "//")
		module, err := hostname.ParseModule(address, "")
		if err != nil {
			return nil, err
		}
		list = append(list, module.Folded().At(m.Version).String())
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Foreseen returns the same list from the output of "modproxy policy report --json DIR".
func Foreseen(report []byte) (list []string, err error) {
	var out struct {
		Items []struct{ Module, Version, Outcome string }
	}
	if err := json.Unmarshal(report, &out); err != nil {
		return nil, err
	}
	for _, one := range out.Items {
		if one.Outcome == "" { // an item about a call
			continue
		}
		module, err := hostname.ParseModule(one.Module, "")
		if err != nil {
			return nil, err
		}
		list = append(list, module.Folded().At(one.Version).String())
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
