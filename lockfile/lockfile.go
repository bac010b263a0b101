// Package lockfile reads the file in which clients have the providers that they have chosen, and adds hashes to it.
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

// Name is what clients call the file, beside the configuration.
const Name = ".terraform.lock.hcl"

// MaxSize is how large the file may be, in bytes.
const MaxSize = 1 << 20

// Provider is what the file has of one provider.
type Provider struct {
	modproxy.Ref
	Hashes []string // in the order of the file: h1, which are of directories, and zh, of archives
	Line   int      // where it begins
}

// Parse reads a .terraform.lock.hcl as both clients write it (internal/depsfile/locks_file.go), with the remarks and
// blank lines that people have added. What is written in another way is refused, although it may mean the same: what is read
// must be what the clients read. The error, which names the line, is [modproxy.ErrInvalid].
func Parse(text []byte) (all []Provider, err error) {
	_, blocks, err := parseBlocks(text)
	for _, b := range blocks {
		all = append(all, b.Provider)
	}
	return all, err
}

// AddHashes returns the text of a .terraform.lock.hcl with more hashes, by provider. Hashes are sorted as the clients sort
// them where there are more than before; everything else stays as it is. The errors are those of [Parse].
func AddHashes(text []byte, more map[modproxy.Ref][]string) ([]byte, error) {
	lines, blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Backward(blocks) { // those before are where they were
		lines = slices.Replace(lines, b.first, b.last, b.with(lines, more[b.Ref])...)
	}
	return []byte(strings.Join(lines, "")), nil
}

// block is a provider in the lines of a file.
type block struct {
	Provider
	listed      bool // whether it has a list of hashes
	first, last int  // the lines in that list, or those before the end of the block, which are none; last is behind them
	eol         string
}

// with returns the lines of the hashes of b when there are more.
func (b *block) with(lines []string, more []string) []string {
	more = slices.DeleteFunc(slices.Clone(more), func(hash string) bool { return slices.Contains(b.Hashes, hash) })
	was := lines[b.first:b.last]
	if len(more) == 0 {
		return was
	}
	type item struct{ hash, text string } // the text has the remarks above it
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

// What a line of the file can be. No string has what HCL takes for more than itself.
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

// parseBlocks returns the lines of a file, with their ends, and the providers in them.
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
	*block          // that is being read, if any
	inList bool     // of its hashes
	has    []string // the attributes that it has
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

// once returns an error if a provider has an attribute already.
func (p *blockParser) once(name string) error {
	if slices.Contains(p.has, name) {
		return fmt.Errorf("%w: a second %s", modproxy.ErrInvalid, name)
	}
	p.has = append(p.has, name)
	return nil
}

// parseProvider reads the address of a provider in the one spelling that the clients take.
func parseProvider(s string) (m modproxy.Address, err error) {
	if m, err = hostname.ParseAddress(s, ""); err != nil {
		return m, err
	}
	if want := hostname.Display(m.Host) + strings.TrimPrefix(m.String(), m.Host); s != want || !m.IsProvider() {
		return m, fmt.Errorf("%w: %.200q is not as clients write a provider", modproxy.ErrInvalid, s)
	}
	return m, nil
}

// checkProviderVersion returns an error for a version that no registry has, or that is not in its canonical spelling.
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
