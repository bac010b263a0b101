package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestContainer: the image and docker-compose.yml configure modproxy so that it starts, requires a credential from clients, and
// checks its health at the address on which it listens.
func TestContainer(t *testing.T) {
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`MODPROXY_[A-Z_]+=\S+`).FindAllString(withoutComments(string(dockerfile)), -1)
	if len(image) == 0 {
		t.Fatal("the Dockerfile sets no variables")
	}

	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if want := "FROM golang:" + string(language[1]) + "-trixie AS build\n"; !strings.Contains(string(dockerfile), want) {
		t.Errorf("the Dockerfile does not build with the Go of go.mod: want %q", want)
	}

	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Build       string
			Ports       []string
			Environment map[string]string
			Volumes     []string
			Healthcheck struct{ Test []string }
			GracePeriod string `yaml:"stop_grace_period"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	s := compose.Services["modproxy"]
	variables := slices.Clone(image)
	for name, value := range s.Environment {
		variables = append(variables, name+"="+value)
	}
	c, err := Load("", variables, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.RequiresToken() {
		t.Error("the container is open to everybody without being told to")
	}
	if base, err := c.LocalURL(); err != nil || base != "http://localhost:8080" {
		t.Errorf("the container asks itself at %s, %v", base, err)
	}
	if !slices.Equal(s.Ports, []string{"127.0.0.1:8080:8080"}) || !slices.Equal(s.Volumes, []string{"data:" + c.Data}) {
		t.Errorf("ports %q, volumes %q", s.Ports, s.Volumes)
	}
	if _, ok := compose.Volumes["data"]; !ok || !slices.Equal(s.Healthcheck.Test, []string{"CMD", "modproxy", "health"}) {
		t.Errorf("volumes %v, health check %q", compose.Volumes, s.Healthcheck.Test)
	}
}

func withoutComments(dockerfile string) string {
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(dockerfile, "")
}
