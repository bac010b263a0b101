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

// Max bounds the number of values. A value that is only peeked at does not count as used.
func TestMax(t *testing.T) {
	c := memory.Cache[string, int]{Max: 2}
	c.Add("a", 1, memory.Forever, 0)
	c.Add("b", 2, memory.Forever, 0)
	if v, ok := c.Peek("a"); !ok || v != 1 {
		t.Errorf("a is %d, %t", v, ok)
	}
	c.Add("c", 3, memory.Forever, 0)
	if _, ok := c.Peek("a"); ok {
		t.Error("a was peeked at, and stayed for it")
	}
	c.Get("b")
	c.Add("d", 4, memory.Forever, 0)
	if _, ok := c.Get("b"); !ok {
		t.Error("b was used, and was removed")
	}
	if _, ok := c.Get("c"); ok {
		t.Error("there are three values")
	}
}

// GetOrAdd returns the first value until it expires. A value for ever does not.
func TestGetOrAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c memory.Cache[string, int]
		for _, k := range []string{"a", "b"} {
			d := map[string]time.Duration{"a": time.Minute, "b": memory.Forever}[k]
			if v := c.GetOrAdd(k, 1, d, 0); v != 1 {
				t.Errorf("%s is %d at first", k, v)
			}
			if v := c.GetOrAdd(k, 2, d, 0); v != 1 {
				t.Errorf("%s is replaced by %d", k, v)
			}
		}
		time.Sleep(time.Hour)
		if a, b := c.GetOrAdd("a", 3, time.Minute, 0), c.GetOrAdd("b", 3, time.Minute, 0); a != 3 || b != 1 {
			t.Errorf("after an hour a is %d, and b %d; want 3, and 1", a, b)
		}
	})
}

// Dropped content counts until its last reader has closed it. Room for more is refused while readers use the limit.
func TestBytes(t *testing.T) {
	b := memory.NewBytes[string](10)
	usage := func(what string, used, idle int64) {
		t.Helper()
		if u, i := b.Usage(); u != used || i != idle {
			t.Errorf("%s: %d bytes in use, %d idle; want %d, %d", what, u, i, used, idle)
		}
	}
	if !b.Reserve(6) {
		t.Fatal("there is no room")
	}
	b.Add("a", []byte("123456"))
	usage("added", 6, 6)
	r := b.Open("a")
	usage("opened", 6, 0)
	if b.Reserve(5) {
		t.Error("there is room for more than the limit")
	}
	b.Drop("a")
	usage("dropped", 6, 0)
	if b.Open("a") != nil || b.Get("a") != nil {
		t.Error("dropped content is still there")
	}
	r.Close()
	r.Close()
	usage("closed", 0, 0)
	if !b.Reserve(8) {
		t.Fatal("there is no room")
	}
	b.Add("b", make([]byte, 8))
	if !b.Reserve(4) || b.Get("b") != nil {
		t.Error("idle content is not dropped for more")
	}
	b.Reserve(-4)
	usage("reservation ended", 0, 0)
}
