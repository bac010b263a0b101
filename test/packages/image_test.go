//go:build linux

package packages_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// The image starts with a read-only root file system, as an unprivileged user without capabilities, and downloads a
// module by git into its volume.
func TestReleaseImage(t *testing.T) {
	dir, _ := dist(t)
	u := newRegistry(t)
	bundle, volume := unpackImage(t, filepath.Join(dir, "modproxy_0.0.2_linux_amd64.oci.tar")), t.TempDir()
	authority, err := os.ReadFile(u.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Chown(volume, 10001, 10001),
		os.WriteFile(filepath.Join(volume, "modproxy.yaml"), []byte(configuration(u)+"anonymous: true\n"), 0o644),
		appendTo(filepath.Join(bundle, "rootfs/etc/ssl/certs/ca-certificates.crt"), string(authority)),
		restrict(filepath.Join(bundle, "config.json"), volume),
	); err != nil {
		t.Fatal(err)
	}
	p, err := rig.Start(exec.Command("runc", "--root", t.TempDir(), "run", "--bundle", bundle, "image"), filepath.Join(t.TempDir(), "runc.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	const url = "http://127.0.0.1:8080"
	if err := p.Until(t.Context(), func() bool { return rig.Get(t.Context(), url+"/-/healthz").Status == 200 }); err != nil {
		t.Fatal(err)
	}
	download(t, url+network)
	if ledger, err := os.Stat(filepath.Join(volume, "ledger")); err != nil || !ledger.IsDir() {
		t.Errorf("the ledger is not in the volume: %v", err)
	}
	stop(t, p)
}

// unpackImage unpacks an image into a bundle of runc, and returns its directory.
func unpackImage(t *testing.T, file string) string {
	t.Helper()
	layout, bundle := t.TempDir(), filepath.Join(t.TempDir(), "bundle")
	for _, args := range [][]string{
		{"tar", "-xf", file, "-C", layout},
		{"umoci", "unpack", "--image", layout + ":" + builtVersion, bundle},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return bundle
}

// restrict changes the configuration that umoci made from the image: as with "docker run --read-only --cap-drop ALL
// --tmpfs /tmp --network host", and the volume of the image at a directory.
func restrict(file, volume string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	config["root"].(map[string]any)["readonly"] = true
	process := config["process"].(map[string]any)
	process["terminal"], process["capabilities"], process["noNewPrivileges"] = false, map[string]any{}, true
	process["env"] = append(process["env"].([]any), "MODPROXY_CONFIG=/var/lib/modproxy/modproxy.yaml")
	config["mounts"] = append(config["mounts"].([]any),
		map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "nodev", "mode=1777"}},
		map[string]any{"destination": "/var/lib/modproxy", "type": "bind", "source": volume, "options": []string{"bind", "rw"}})
	config["linux"] = map[string]any{"namespaces": []any{
		map[string]string{"type": "mount"}, map[string]string{"type": "pid"}, map[string]string{"type": "uts"},
	}}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
