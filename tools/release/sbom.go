package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes the bill of materials of the programs: the modules that are linked into at least one of them.
func (r *release) writeBOM() error {
	modules := map[string]cdx.Component{}
	for _, p := range platforms {
		program, err := r.program(p)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		modules[""] = library("pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go"), "std", info.GoVersion)
		for _, m := range info.Deps {
			if modules[m.Path], err = moduleComponent(m); err != nil {
				return err
			}
		}
	}
	return r.writeComponents(r.shortName()+".cdx.json", cdx.ComponentTypeApplication, sorted(modules))
}

// writeImageBOM writes the bill of materials of the image: modproxy, and the Debian packages in the file list. It does not repeat the modules,
// which are in the bill of materials of the programs.
func (r *release) writeImageBOM(p platform, list string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	packages := map[string]cdx.Component{}
	for line := range strings.Lines(string(text)) {
		var name, version, arch string
		if _, err := fmt.Sscan(line, &name, &version, &arch); err != nil {
			return fmt.Errorf("the list of Debian packages has the line %q: %w", line, err)
		}
		escaped := strings.NewReplacer("+", "%2B", ":", "%3A", "~", "~").Replace(version)
		packages[name] = library(fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=trixie", name, escaped, arch), name, version)
	}
	packages["modproxy"] = library("pkg:golang/"+modulePath+"@"+r.version, "modproxy", r.version)
	return r.writeComponents(r.name(p)+".oci.cdx.json", cdx.ComponentTypeContainer, sorted(packages))
}

const modulePath = "github.com/modproxy/modproxy"

func library(purl, name, version string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
}

// moduleComponent returns the component for a linked module. Its hash is the one in go.sum: a SHA-256 of the hashes of the module's files.
func moduleComponent(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) == 0 {
		return cdx.Component{}, fmt.Errorf("module %s %s: sum %q: %w", m.Path, m.Version, m.Sum, err)
	}
	c := library("pkg:golang/"+m.Path+"@"+m.Version, m.Path, m.Version)
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return c, nil
}

func sorted(components map[string]cdx.Component) []cdx.Component {
	all := make([]cdx.Component, 0, len(components))
	for _, key := range slices.Sorted(maps.Keys(components)) {
		all = append(all, components[key])
	}
	return all
}

// writeComponents writes a bill of materials as CycloneDX JSON.
func (r *release) writeComponents(name string, kind cdx.ComponentType, components []cdx.Component) error {
	bom := cdx.NewBOM()
	subject := library("pkg:golang/"+modulePath+"@"+r.version, "modproxy", r.version)
	subject.Type, subject.BOMRef = kind, "modproxy"
	subject.Properties = &[]cdx.Property{{Name: "commit", Value: r.commit}}
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &subject}
	bom.Components = &components
	var content bytes.Buffer
	if err := cdx.NewBOMEncoder(&content, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), content.Bytes(), 0o644)
}
