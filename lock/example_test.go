package lock_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy/lock"
)

// Lock the installed modules, and compare them later.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	installed := filepath.Join(dir, ".terraform", "modules")
	for name, text := range map[string]string{ // as "terraform init" leaves it
		"modules.json": `{"Modules": [
			{"Key": "", "Source": "", "Dir": "."},
			{"Key": "net", "Source": "registry.example.com/acme/network/aws", "Version": "1.2.0", "Dir": ".terraform/modules/net"}
		]}`,
		"net/main.tf": "# a network\n",
	} {
		name = filepath.Join(installed, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	calls, _, err := lock.Read(dir, ".terraform")
	if err != nil {
		log.Fatal(err)
	}
	entries, errs := lock.Make(calls)
	fmt.Println(entries[0].Ref, entries[0].Sum, errs)

	if err := os.WriteFile(filepath.Join(installed, "net", "main.tf"), []byte("# something else\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(lock.Check(entries, calls)), "module differs from the lock")
	// Output:
	// registry.example.com/acme/network/aws 1.2.0 h1:OWdX66z+UQTuQO68XMUywWnSxKsJ36TBX6tYf9lWZkI= []
	// 1 module differs from the lock
}
