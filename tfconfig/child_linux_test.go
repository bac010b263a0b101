package tfconfig_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// childOf returns the directory in /proc of the only child of this process.
func childOf(t *testing.T) string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil { // a kernel without this list
			rig.Missing(t, "%v", err)
		}
		all = append(all, strings.Fields(string(text))...)
	}
	if len(all) != 1 {
		t.Fatalf("children: %v; want one", all)
	}
	return "/proc/" + all[0]
}

// A child has no environment or files of its parent, and runs within limits.
func TestChild(t *testing.T) {
	t.Setenv("MODPROXY_TEST_SECRET", "x")
	tree := tfconfig.PackageTree(modproxy.Digest{}, func() (io.ReadCloser, error) {
		at, limits := childOf(t), ""
		for wait := time.Now().Add(time.Minute); !strings.Contains(limits, "Max cpu time              10 "); time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(at + "/limits")
			if limits = string(text); err != nil || time.Now().After(wait) {
				t.Fatalf("limits: %s, %v", limits, err)
			}
		}
		for file, want := range map[string]string{"environ": "", "oom_score_adj": "1000\n"} {
			if got, err := os.ReadFile(at + "/" + file); err != nil || string(got) != want {
				t.Errorf("%s of the child: %q, %v; want %q", file, got, err, want)
			}
		}
		for _, want := range []string{"Max core file size        0 ", "Max file size             0 "} {
			if !strings.Contains(limits, want) {
				t.Errorf("limits of the child have no %q:\n%s", want, limits)
			}
		}
		if strings.Contains(limits, "Max address space         unlimited") {
			t.Error("the memory of the child has no limit")
		}
		return nil, errOpened
	})
	r := tfconfig.NewReader(nil, 0)
	if _, err := r.Read(t.Context(), tree, tfconfig.Options{Client: tfconfig.OpenTofu}); !errors.Is(err, errOpened) {
		t.Errorf("Read: %v", err)
	}
}

// A child ends when its context ends.
func TestChildEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var at string
	tree := tfconfig.PackageTree(modproxy.Digest{}, func() (io.ReadCloser, error) {
		at = childOf(t)
		cancel()
		return io.NopCloser(strings.NewReader("")), nil
	})
	r := tfconfig.NewReader(nil, 0)
	if _, err := r.Read(ctx, tree, tfconfig.Options{Client: tfconfig.OpenTofu}); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the child is still there: %v", err)
	}
}

// A child that is evaluating an expression ends when its context ends, too.
func TestChildEndsAtWork(t *testing.T) {
	loops := "a != a"
	for range 5 { // each multiplies the work by a hundred
		loops = "[for a in local.l : a if " + loops + "] == [0]"
	}
	text := "locals {\n l = [" + strings.Repeat("1,", 100) + "]\n}\nmodule \"m\" { source = " + loops + ` ? "./a" : "./b" }` + "\n"
	before := spentByChildren(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := tfconfig.NewReader(nil, 0)
	_, err := r.Read(ctx, packed(t, file("main.tf", text)), tfconfig.Options{Client: tfconfig.OpenTofu})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	if spent := spentByChildren(t) - before; spent > 7*time.Second { // its limit is maxCPU
		t.Errorf("the child took %v of the processor", spent)
	}
}

// spentByChildren returns the processor time of all children that have ended.
func spentByChildren(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
