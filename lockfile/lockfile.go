// Package lockfile parses .terraform.lock.hcl, which the clients write, and adds hashes.
//
//	providers, err := lockfile.Parse(text)
//	text, err = lockfile.AddHashes(text, missing)
//
// Invariant: a file that Parse accepts has the same meaning for both clients. AddHashes changes only lists of hashes. The
// clients' code specifies the form (internal/depsfile/locks_file.go).
package lockfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Name is the name of the file, in the directory of the configuration.
const Name = ".terraform.lock.hcl"

// MaxSize is the maximum size of the file, in bytes. Parse and AddHashes refuse a longer text.
const MaxSize = 1 << 20

// Provider is the entry of one provider in the file. Its Ref has the provider and the version, and no platform.
type Provider struct {
	modproxy.Ref
	Hashes []string // in the order of the file: h1 of directories, and zh of archives
	Line   int      // the first line of the entry
}

// Parse parses a .terraform.lock.hcl in the form that both clients write (internal/depsfile/locks_file.go). Comments and
// blank lines are allowed, and lines may end in CRLF. Clients also read other forms of HCL. Parse refuses these, so that it cannot
// give a text another meaning than the clients do. Errors name the line and wrap [modproxy.ErrInvalid].
func Parse(text []byte) (all []Provider, err error) {
	_, blocks, err := parseBlocks(text)
	for _, b := range blocks {
		all = append(all, b.Provider)
	}
	return all, err
}

// AddHashes returns the text of a .terraform.lock.hcl with additional hashes. Their keys are the Refs of [Provider]; AddHashes ignores
// keys that the text does not have. It sorts the hashes of a provider like the clients if it adds one. Everything else stays unchanged.
// The errors are those of [Parse].
func AddHashes(text []byte, more map[modproxy.Ref][]string) ([]byte, error) {
	lines, blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Backward(blocks) { // backward, so that the lines of earlier blocks keep their numbers
		lines = slices.Replace(lines, b.first, b.last, b.with(lines, more[b.Ref])...)
	}
	return []byte(strings.Join(lines, "")), nil
}

// block is the block of a provider in the lines of a file.
type block struct {
	Provider
	listed      bool // the block has a list of hashes
	first, last int  // the lines in that list, or an empty range before the end of the block; last is exclusive
	eol         string
}

// with returns the lines of b's hashes after more are added.
func (b *block) with(lines []string, more []string) []string {
	more = slices.DeleteFunc(slices.Clone(more), func(hash string) bool { return slices.Contains(b.Hashes, hash) })
	was := lines[b.first:b.last]
	if len(more) == 0 {
		return was
	}
	type item struct{ hash, text string } // the text includes the comments above the hash
	var items []item
	remarks := ""
	for _, line := range was {
		remarks += line
		if m := hashLine.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			items, remarks = append(items, item{m[1], remarks}), ""
		}
	}
	for _, hash := range more {
		items = append(items, item{hash, `    "` + hash + `",` + b.eol})
	}
	slices.SortStableFunc(items, func(x, y item) int { return strings.Compare(x.hash, y.hash) })
	items = slices.CompactFunc(items, func(x, y item) bool { return x == y })
	var now []string
	for _, it := range items {
		now = append(now, it.text)
	}
	if !b.listed {
		return append(append([]string{"  hashes = [" + b.eol}, now...), "  ]"+b.eol)
	}
	return append(now, remarks)
}

// The forms of a line. Strings contain no characters with a special meaning in HCL.
var (
	blankLine    = lineOf(``)
	providerLine = lineOf(`provider[ \t]+"([^"\\$%]*)"[ \t]*\{`)
	textLine     = lineOf(`(version|constraints)[ \t]*=[ \t]*"([^"\\$%]*)"`)
	hashesLine   = lineOf(`hashes[ \t]*=[ \t]*\[`)
	hashLine     = lineOf(`"([^"\\$%]*)",`)
	listEnd      = lineOf(`\]`)
	blockEnd     = lineOf(`\}`)
)

func lineOf(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^[ \t]*` + pattern + `[ \t]*((#|//).*)?$`)
}

// parseBlocks returns the lines of a file, with their line ends, and the providers in them.
func parseBlocks(text []byte) (lines []string, blocks []*block, err error) {
	if len(text) > MaxSize {
		return nil, nil, fmt.Errorf("%w: more than the %d bytes that are allowed", modproxy.ErrInvalid, MaxSize)
	}
	p := blockParser{seen: map[modproxy.Address]bool{}}
	lines = strings.SplitAfter(string(text), "\n")
	for i, line := range lines {
		if err := p.line(i, line); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if p.block != nil {
		return nil, nil, fmt.Errorf("line %d: %w: it ends within a provider", len(lines), modproxy.ErrInvalid)
	}
	return lines, p.blocks, nil
}

type blockParser struct {
	blocks []*block
	seen   map[modproxy.Address]bool
	*block          // the current block, or nil
	inList bool     // in its list of hashes
	has    []string // the attributes of the block so far
}

func (p *blockParser) line(i int, line string) error {
	s, ended := strings.CutSuffix(line, "\n")
	if ended {
		s = strings.TrimSuffix(s, "\r")
	}
	var m []string
	is := func(form *regexp.Regexp) bool { m = form.FindStringSubmatch(s); return m != nil }
	unfit := func(r rune) bool { return unicode.IsControl(r) && r != '\t' }
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unfit):
	case is(blankLine):
		return nil
	case p.block == nil && is(providerLine):
		provider, err := parseProvider(m[1])
		if err == nil && p.seen[provider] {
			err = fmt.Errorf("%w: %s has a block above", modproxy.ErrInvalid, provider)
		}
		p.block, p.has, p.seen[provider] = &block{Provider: Provider{Ref: provider.At(""), Line: i + 1}, eol: line[len(s):]}, nil, true
		return err
	case p.block == nil:
	case p.inList && is(hashLine):
		p.Hashes = append(p.Hashes, m[1])
		return checkHash(m[1])
	case p.inList && is(listEnd):
		p.inList, p.last = false, i
		return nil
	case p.inList:
	case is(textLine):
		if m[1] == "version" {
			p.Version = m[2]
		}
		return p.once(m[1])
	case is(hashesLine):
		p.listed, p.inList, p.first = true, true, i+1
		return p.once("hashes")
	case is(blockEnd):
		b := p.block
		if p.block = nil; !b.listed {
			b.first, b.last = i, i
		}
		p.blocks = append(p.blocks, b)
		return checkProviderVersion(b.Ref)
	}
	return fmt.Errorf("%w: not as clients write it", modproxy.ErrInvalid)
}

// once returns an error if the block already has the attribute.
func (p *blockParser) once(name string) error {
	if slices.Contains(p.has, name) {
		return fmt.Errorf("%w: a second %s", modproxy.ErrInvalid, name)
	}
	p.has = append(p.has, name)
	return nil
}

// parseProvider parses the address of a provider in the spelling that the clients accept.
func parseProvider(s string) (m modproxy.Address, err error) {
	if m, err = hostname.ParseAddress(s, ""); err != nil {
		return m, err
	}
	if want := hostname.Display(m.Host) + strings.TrimPrefix(m.String(), m.Host); s != want || !m.IsProvider() {
		return m, fmt.Errorf("%w: %.200q is not as clients write a provider", modproxy.ErrInvalid, s)
	}
	return m, nil
}

// checkProviderVersion returns an error for a version that no registry can list, or that is not canonical.
func checkProviderVersion(v modproxy.Ref) error {
	version, err := modproxy.CanonicalVersion(v.Version)
	if err != nil || version != v.Version || !v.At(v.Version).IsListed() {
		return fmt.Errorf("%w: provider %s: the version %.80q is not as clients write it", modproxy.ErrInvalid, v.Address, v.Version)
	}
	return nil
}

func checkHash(s string) error {
	_, errSum := modproxy.Sum(s).Hash()
	digits, isZip := strings.CutPrefix(s, "zh:")
	d, errDigest := modproxy.ParseDigest(digits)
	if errSum != nil && (!isZip || errDigest != nil || d.String() != digits) {
		return fmt.Errorf("%w: %.160q is neither h1 nor zh", modproxy.ErrInvalid, s)
	}
	return nil
}
