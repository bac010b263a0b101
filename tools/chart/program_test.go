package chart_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// buildProgram builds modproxy and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "modproxy")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/modproxy")
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// existing returns the files of the secrets and ConfigMaps that the values name, and that an operator creates.
func existing(t *testing.T) map[string]map[string]string {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	token := map[string]string{"token": "secret\n"}
	return map[string]map[string]string{
		"modproxy-tls":    {"tls.crt": encode("CERTIFICATE", server.Certificate().Raw), "tls.key": encode("PRIVATE KEY", key)},
		"modproxy-config": {"modproxy.yaml": "cache: {max_size: 1GiB}\n"},
		"registry-token":  token,
		"git-token":       token,
		"git-key":         {"ssh-privatekey": encode("PRIVATE KEY", key)},
		"known-hosts":     {"known_hosts": "ssh.example.com ssh-ed25519 AAAA\n"},
		"rules":           {"rules.yaml": "rules: [{allow: registry.example.com/acme/*/*}]\n"},
	}
}

// mount writes the files of the pod below root. It returns the variables of the container, in which paths begin with root.
func (r release) mount(t *testing.T, root string) (variables []string) {
	t.Helper()
	files := existing(t)
	if r.config != nil {
		files[r.config.Name] = r.config.Data
	}
	names := map[string]string{} // of the secret or ConfigMap, by volume
	for _, v := range r.set.Spec.Template.Spec.Volumes {
		switch {
		case v.Secret != nil:
			names[v.Name] = v.Secret.SecretName
		case v.ConfigMap != nil:
			names[v.Name] = v.ConfigMap.Name
		}
	}
	for _, m := range r.container().VolumeMounts {
		if err := os.MkdirAll(root+m.MountPath, 0o700); err != nil {
			t.Fatal(err)
		}
		content := files[names[m.Name]]
		if content == nil && m.Name != "data" {
			t.Fatalf("the test has no files for volume %s (%s)", m.Name, names[m.Name])
		}
		for name, text := range content {
			r.checkPaths(t, text)
			text = strings.ReplaceAll(text, "/run/", root+"/run/")
			if err := os.WriteFile(root+path.Join(m.MountPath, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, v := range r.container().Env {
		if strings.HasPrefix(v.Value, "/") {
			v.Value = root + v.Value
		}
		variables = append(variables, v.Name+"="+v.Value)
	}
	return append(variables, "PATH="+os.Getenv("PATH"))
}

// checkPaths checks that the pod has the files that a configuration names.
func (r release) checkPaths(t *testing.T, text string) {
	for _, name := range regexp.MustCompile(`/run/[^\s"',\]}]+`).FindAllString(text, -1) {
		mounted := false
		for _, m := range r.container().VolumeMounts {
			mounted = mounted || path.Dir(name) == m.MountPath
		}
		if !mounted {
			t.Errorf("the configuration names %s, which is not in a volume of the pod", name)
		}
	}
}

// TestProgram: modproxy finds no mistake in the configuration of each release, starts with it, answers the probes and the health check of
// the image, and ends when it is stopped. It runs with "offline: true", so that no test connects to a registry.
func TestProgram(t *testing.T) {
	program := buildProgram(t)
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			r := admitAll(t, mustRender(t, values))
			variables := r.mount(t, t.TempDir())
			run := func(args ...string) string {
				cmd := exec.Command(program, args...)
				cmd.Env = variables
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("modproxy %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			if out := run("config", "check"); !strings.HasSuffix(out, "The configuration is in order.\n") {
				t.Errorf("config check: %s", out)
			}
			r.checkSettings(t, run("config", "--json"))
			r.serve(t, program, append(variables, "MODPROXY_LISTEN=127.0.0.1:0", "MODPROXY_OFFLINE=true"))
		})
	}
}

// checkSettings compares the settings that "modproxy config --json" printed with the pod.
func (r release) checkSettings(t *testing.T, printed string) {
	var all struct {
		Items []struct {
			Key   string
			Value any
		}
	}
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		t.Fatalf("%s: %v", printed, err)
	}
	settings := map[string]any{}
	for _, s := range all.Items {
		settings[s.Key] = s.Value
	}
	if want := fmt.Sprintf(":%d", r.container().Ports[0].ContainerPort); settings["listen"] != want {
		t.Errorf("listen: %v, want the port of the container, %s", settings["listen"], want)
	}
	if data, _ := settings["data"].(string); !strings.HasSuffix(data, r.container().VolumeMounts[0].MountPath) {
		t.Errorf("data: %v, want the volume at %s", data, r.container().VolumeMounts[0].MountPath)
	}
	shutdown, err := time.ParseDuration(fmt.Sprint(settings["shutdown"]))
	grace := time.Duration(*r.set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if err != nil || grace <= shutdown+20*time.Second {
		t.Errorf("shutdown %v, %v: modproxy can take 20 seconds longer, and the pod ends after %v", shutdown, err, grace)
	}
}

// serve starts modproxy, requests the paths of the probes and stops it.
func (r release) serve(t *testing.T, program string, variables []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends a test that would hang
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "serve")
	cmd.Env, cmd.Stderr = variables, &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() // after a failure; ctx has ended the process
	defer cancel()
	first, err := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(`^modproxy listens on (https?)://\S+:(\d+) `).FindStringSubmatch(first)
	if m == nil {
		cancel()
		cmd.Wait()
		t.Fatalf("modproxy printed %q, %v\n%s", first, err, &log)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as Kubernetes does
	for name, probe := range map[string]*core.Probe{
		"startup": r.container().StartupProbe, "liveness": r.container().LivenessProbe, "readiness": r.container().ReadinessProbe,
	} {
		get := probe.HTTPGet
		if !strings.EqualFold(string(get.Scheme), m[1]) || get.Port.String() != r.container().Ports[0].Name {
			t.Errorf("the %s probe uses %s and port %s, and modproxy speaks %s", name, get.Scheme, get.Port.String(), m[1])
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[1]+"://127.0.0.1:"+m[2]+get.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "10.1.2.3:8080" // the address of a pod
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s probe: %v", name, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s probe: %s, %v\n%s", name, resp.Status, err, body)
		}
	}
	client.CloseIdleConnections()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("modproxy ended: %v\n%s", err, &log)
	}
}
