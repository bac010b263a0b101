package main

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// imageConfig returns the configuration of the released image.
func imageConfig(t *testing.T) v1.Config {
	t.Helper()
	var config v1.Config
	if err := json.Unmarshal([]byte(readFile(t, "packaging/image.json")), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// The image of the Dockerfile has the same configuration as the released image.
func TestDockerfile(t *testing.T) {
	got, want := lastStage(t, readFile(t, "Dockerfile")), imageConfig(t)
	slices.Sort(got.Env)
	slices.Sort(want.Env)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Dockerfile and packaging/image.json differ:\n%+v\n%+v", got, want)
	}
}

// lastStage returns the configuration of the last stage of a Dockerfile. It reads only the instructions that our Dockerfile has.
func lastStage(t *testing.T, text string) (config v1.Config) {
	t.Helper()
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\\\n", " ")
	list := func(text string) (list []string) {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return list
	}
	for line := range strings.Lines(text) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch instruction {
		case "FROM":
			config = v1.Config{}
		case "USER":
			config.User = rest
		case "WORKDIR":
			config.WorkingDir = rest
		case "VOLUME":
			config.Volumes = map[string]struct{}{rest: {}}
		case "EXPOSE":
			config.ExposedPorts = map[string]struct{}{rest + "/tcp": {}}
		case "ENV":
			config.Env = append(config.Env, strings.Fields(rest)...)
		case "ENTRYPOINT":
			config.Entrypoint = list(rest)
		case "CMD":
			config.Cmd = list(rest)
		case "HEALTHCHECK":
			options, command, _ := strings.Cut(rest, " CMD ")
			config.Healthcheck = healthcheck(t, append([]string{"CMD"}, list(command)...), regexp.MustCompile(`--([a-z-]+)=(\S+)`).FindAllStringSubmatch(options, -1))
		case "RUN", "COPY", "ARG", "":
		default:
			t.Fatalf("Dockerfile: this test does not know the instruction %s", instruction)
		}
	}
	return config
}

// healthcheck returns a health check with options, each a match of its name and its value.
func healthcheck(t *testing.T, test []string, options [][]string) *v1.HealthConfig {
	t.Helper()
	check := &v1.HealthConfig{Test: test}
	for _, option := range options {
		if option[1] == "retries" {
			if option[2] != "3" {
				t.Fatalf("retries: %s; this test knows 3", option[2])
			}
			check.Retries = 3
			continue
		}
		d, err := time.ParseDuration(option[2])
		if err != nil {
			t.Fatal(err)
		}
		switch strings.ReplaceAll(option[1], "_", "-") {
		case "interval":
			check.Interval = d
		case "timeout":
			check.Timeout = d
		case "start-period":
			check.StartPeriod = d
		default:
			t.Fatalf("this test does not know the option %s of a health check", option[1])
		}
	}
	return check
}

// The compose file uses the image as it is meant: its port, its volume, its health check, a read-only root file system, and
// no other user.
func TestCompose(t *testing.T) {
	type service struct {
		User, Command, Entrypoint any
		Ports, Volumes, Tmpfs     []string
		ReadOnly                  bool     `yaml:"read_only"`
		CapDrop                   []string `yaml:"cap_drop"`
		Healthcheck               struct {
			Test                       []string
			Interval, Timeout, Retries string
			StartPeriod                string `yaml:"start_period"`
		}
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	got, want := file.Services["modproxy"], imageConfig(t)
	if got.User != nil || got.Command != nil || got.Entrypoint != nil {
		t.Errorf("the service changes the user, the command or the entrypoint of the image: %+v", got)
	}
	volume := slices.Collect(maps.Keys(want.Volumes))[0]
	if !slices.Equal(got.Volumes, []string{"data:" + volume}) {
		t.Errorf("the service mounts %v; the volume of the image is %s", got.Volumes, volume)
	}
	port := strings.TrimSuffix(slices.Collect(maps.Keys(want.ExposedPorts))[0], "/tcp")
	if !slices.Equal(got.Ports, []string{"127.0.0.1:8080:" + port}) {
		t.Errorf("the service publishes %v; the port of the image is %s", got.Ports, port)
	}
	if !got.ReadOnly || !slices.Equal(got.Tmpfs, []string{"/tmp"}) || !slices.Equal(got.CapDrop, []string{"ALL"}) {
		t.Errorf("the root file system or the capabilities are not restricted: %+v", got)
	}
	h := got.Healthcheck
	check := healthcheck(t, h.Test, [][]string{
		{"", "interval", h.Interval}, {"", "timeout", h.Timeout}, {"", "start_period", h.StartPeriod}, {"", "retries", h.Retries},
	})
	if !reflect.DeepEqual(check, want.Healthcheck) {
		t.Errorf("the health checks differ:\n%+v\n%+v", check, want.Healthcheck)
	}
}
