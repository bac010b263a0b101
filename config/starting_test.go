package config

import "testing"

// The starting configuration is valid, and sets the directory and the bound, for any name of the directory.
func TestStarting(t *testing.T) {
	for _, data := range []string{"modproxy-data", "/var/lib/modproxy", "a b: #c", "- x", `"quoted"`, "line\nbreak", "null", "8", "*x"} {
		name := writeFile(t, "modproxy.yaml", Starting(data, 50<<30))
		c, err := Load(name, nil, nil)
		if err != nil {
			t.Errorf("%q: %v", data, err)
			continue
		}
		if c.Data != data || c.Cache.MaxSize != 50<<30 {
			t.Errorf("%q: data is %q, cache.max_size %s", data, c.Data, c.Cache.MaxSize)
		}
		defaults := Default()
		defaults.Data, defaults.Cache.MaxSize = c.Data, c.Cache.MaxSize
		for i, k := range defaults.keys() {
			if set := c.keys()[i]; yamlText(set.value) != yamlText(k.value) {
				t.Errorf("%s is %s, and its default %s", k.Path, yamlText(set.value), yamlText(k.value))
			}
		}
	}
}
