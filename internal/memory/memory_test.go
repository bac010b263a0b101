package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/internal/memory"
)

// The least recently used value is removed first, and a value that is larger than the limit is not stored.
func TestLimit(t *testing.T) {
	c := memory.Cache[string, int]{Limit: 10}
	known := func(want map[string]bool) {
		t.Helper()
		for k, is := range want {
			if _, ok := c.Get(k); ok != is {
				t.Errorf("%s is remembered: %v, want %v", k, ok, is)
			}
		}
	}
	c.Add("a", 1, time.Hour, 4)
	c.Add("b", 2, time.Hour, 4)
	c.Add("b", 3, time.Hour, 5) // replaces the 4
	c.Get("a")
	c.Add("c", 4, time.Hour, 5)
	known(map[string]bool{"a": true, "b": false, "c": true})
	c.Add("d", 5, time.Hour, 11)
	known(map[string]bool{"a": true, "c": true, "d": false})
	c.Add("e", 6, time.Hour, 10)
	c.Drop("e")
	c.Add("f", 7, time.Hour, 10)
	known(map[string]bool{"e": false, "f": true})
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c memory.Cache[string, int]
		c.Add("a", 1, time.Second, 0)
		c.Add("b", 2, 0, 0)
		if v, ok := c.Get("a"); v != 1 || !ok {
			t.Error(v, ok)
		}
		time.Sleep(time.Second)
		if v, ok := c.Get("a"); v != 1 || ok {
			t.Error(v, ok)
		}
		if v, ok := c.Get("b"); v != 0 || ok {
			t.Error(v, ok)
		}
	})
}

// A value that was looked up before a change is not stored after it.
func TestBegin(t *testing.T) {
	var c memory.Cache[string, int]
	for name, change := range map[string]func(){
		"dropped": func() { c.Drop("a") },
		"removed": func() { c.Remove(func(k string) bool { return k == "a" }) },
		"added":   func() { c.Add("a", 2, time.Hour, 0) },
		"anew":    func() { c.Begin("a") },
	} {
		c.Drop("a")
		remember := c.Begin("a")
		change()
		remember(1, time.Hour, 0)
		if v, _ := c.Get("a"); v == 1 {
			t.Error(name)
		}
	}
	remember := c.Begin("a")
	remember(1, time.Hour, 0)
	if v, ok := c.Get("a"); v != 1 || !ok {
		t.Error(v, ok)
	}
}
