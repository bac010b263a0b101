package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// The linker's version and commit win over those that Go records.
func TestVersionText(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	version, commit = "v1.2.3", "0123abcd"
	if got, want := versionText(), "modproxy v1.2.3 (commit 0123abcd, go1."; !strings.HasPrefix(got, want) {
		t.Errorf("%q; want %q first", got, want)
	}
}

func TestRecordedCommit(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for want, info := range map[string]*debug.BuildInfo{
		"":           {Settings: []debug.BuildSetting{setting("CGO_ENABLED", "0")}},
		"0123":       {Settings: []debug.BuildSetting{setting("vcs.revision", "0123"), setting("vcs.modified", "false")}},
		"0123+dirty": {Settings: []debug.BuildSetting{setting("vcs.modified", "true"), setting("vcs.revision", "0123")}},
	} {
		if got := recordedCommit(info); got != want {
			t.Errorf("%v: %q; want %q", info.Settings, got, want)
		}
	}
	if got := recordedCommit(nil); got != "" {
		t.Errorf("without information: %q", got)
	}
}
