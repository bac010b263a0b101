package protocol

import (
	"errors"
	"net/url"
	"strings"
)

var (
	errEscape      = Invalid(errors.New("bad percent-encoding in the path"))
	errQuery       = Invalid(errors.New("bad percent-encoding in the query"))
	errModule      = NotFound("want {namespace}/{name}/{system}/versions, …/{version}, …/{version}/download or …/downloads/summary")
	errNoDocs      = NotFound("this is not the name of a site that describes the modules and providers of an upstream")
	errUnknownPath = NotFound("this is not a path of a registry protocol")
)

// Covers reports whether a path, without escapes, belongs to a protocol. [Upstreams.Parse] reads such a path, or says what is
// wrong with it.
func Covers(path string) bool { return grammarOf(path) != nil }

// Parse reads an escaped path of a request that was sent to requestHost, the Host header. Every error is an [Error].
//
// Without a registry in the path of a module, requestHost counts if it is the name of an upstream; otherwise the namespace
// decides. The path of a provider must name its registry, or requestHost be the registry's name.
func (u *Upstreams) Parse(requestHost, path string) (Request, error) {
	plain := path
	if strings.Contains(path, "%") {
		var err error
		if plain, err = url.PathUnescape(path); err != nil {
			return Request{}, errEscape
		}
	}
	parse := grammarOf(plain)
	if parse == nil {
		return Request{}, errUnknownPath
	}
	return parse(u, requestHost, path)
}

// grammarOf returns the parser of the protocol that a path belongs to, or nil.
func grammarOf(path string) func(u *Upstreams, requestHost, path string) (Request, error) {
	switch {
	case strings.Contains(path, "/"+ModulesPath), strings.HasSuffix(path, "/v1/modules"):
		return (*Upstreams).parseModule
	case strings.Contains(path, "/"+moduleHistoryPath):
		return (*Upstreams).parseHistory
	case strings.Contains(path, "/"+providerHistoryPath), strings.Contains(path, "/"+providerVersionPath),
		strings.Contains(path, "/"+providerDocumentsPath), strings.HasSuffix(path, "/v2/provider-docs"):
		return (*Upstreams).parseBesideProviders
	case strings.HasPrefix(path, docsPath):
		return (*Upstreams).parseDocs
	case strings.HasPrefix(path, providerDocsPath):
		return (*Upstreams).parseProviderDocs
	case strings.Contains(path, "/"+ProvidersPath):
		return (*Upstreams).parseProvider
	case strings.HasPrefix(path, mirrorPath):
		return (*Upstreams).parseMirror
	}
	return nil
}

// IsAboutProviders reports whether a path belongs to the provider registry protocol or to the provider network mirror protocol. The
// paths of the API that describes providers do not.
func IsAboutProviders(path string) bool {
	return strings.Contains(path, "/"+ProvidersPath) || IsMirror(path)
}

// IsMirror reports whether a path belongs to the provider network mirror protocol.
func IsMirror(path string) bool { return strings.HasPrefix(path, mirrorPath) }

// NamedHost returns the first part of a path of modules, or of the API that describes modules and providers: the registry, as it is
// written, or an empty string if the path does not name one. ok is false for other paths, such as those by which clients install
// providers. Package proxy uses it to say in an error for which host a token is missing.
func NamedHost(path string) (written string, ok bool) {
	for _, protocol := range []string{ModulesPath, moduleHistoryPath, providerHistoryPath, providerVersionPath, providerDocumentsPath} {
		if before, _, ok := strings.Cut(path+"/", "/"+protocol); ok {
			return strings.TrimPrefix(before, "/"), true
		}
	}
	return "", strings.HasPrefix(path, docsPath) || strings.HasPrefix(path, providerDocsPath)
}

// unescaped returns the segments of an escaped path.
func unescaped(path string) (parts []string, err error) {
	parts = strings.Split(path, "/")
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, errEscape
		}
	}
	return parts, nil
}
