package web

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestParse(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for in, want := range map[string]string{
		"https://h.example/x.tar.gz":                           "tar.gz https://h.example/x.tar.gz",
		"https://h.example/x?zz=1&sig=a%2Fb%20c&archive=zip":   "zip https://h.example/x?zz=1&sig=a%2Fb%20c",
		"https://h.example/x.tgz?checksum=sha256:" + sum:       "tar.gz https://h.example/x.tgz",
		"https://h.example/x.zip?archive=false":                " https://h.example/x.zip",
		"https://h.example/x":                                  " https://h.example/x",
		"https://u:p@h.example:8443/x.zip":                     "zip https://h.example:8443/x.zip for https://h.example:8443",
		"https://h.example/x?checksum=sha256:" + sum:           "", // not an archive
		"https://h.example/x.zip?checksum=file:https://h/SUMS": "",
		"https:///x.zip":                                       "",
	} {
		s, err := parse(in, false)
		if err != nil {
			if want != "" || !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%s: %v; want %q", in, err, want)
			}
			continue
		}
		got := string(s.format) + " " + s.url.String()
		if s.user != nil {
			got += " for " + s.user.Origin
		}
		if got != want {
			t.Errorf("%s: %q; want %q", in, got, want)
		}
		if (s.checksum != nil) != strings.Contains(in, "checksum") {
			t.Errorf("%s: checksum %v", in, s.checksum)
		}
	}
}

func TestMetaTag(t *testing.T) {
	for page, want := range map[string]string{
		`<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="terraform-get" content="git::https://x.example/y.git"></head></html>`: "git::https://x.example/y.git",
		`<head><META NAME="terraform-get" CONTENT="./x.zip"/>`:                                                                              "./x.zip",
		`<html><head></head><body><meta name="terraform-get" content="x">`:                                                                  "",
		`<html><head><meta name="other" content="x"></head></html>`:                                                                         "",
		`<html><head><meta name="terraform-get"></head></html>`:                                                                             "",
		"\x1f\x8b\x08\x00": "",
		``:                 "",
	} {
		got, err := metaTag(strings.NewReader(page))
		if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %q, %v; want %q", page, got, err, want)
		}
	}
}

func FuzzMetaTag(f *testing.F) {
	f.Add(`<head><meta name="terraform-get" content="./x.zip"></head>`)
	f.Add(`<?xml version="1.0" encoding="utf-16"?><a>&nbsp;<b`)
	f.Fuzz(func(t *testing.T, page string) {
		if got, err := metaTag(strings.NewReader(page)); (got == "") != (err != nil) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
