package chart_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestContainer: the chart, docker-compose.yml and the Dockerfile agree on user, port, directory and command.
func TestContainer(t *testing.T) {
	r := admitAll(t, mustRender(t, nil))
	pod, c := r.set.Spec.Template.Spec, r.container()
	user := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)
	port, data := fmt.Sprint(c.Ports[0].ContainerPort), c.VolumeMounts[0].MountPath

	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for instruction, want := range map[string]string{
		"USER": user, "EXPOSE": port, "VOLUME": data, "ENTRYPOINT": `["modproxy"]`, "CMD": `["serve"]`,
	} {
		found := regexp.MustCompile(`(?m)^`+instruction+` +(.*)$`).FindAllStringSubmatch(string(dockerfile), -1)
		if len(found) == 0 || found[len(found)-1][1] != want {
			t.Errorf("the Dockerfile has %s %v, and the chart expects %s", instruction, found, want)
		}
	}

	file := filepath.Join(top, "docker-compose.yml")
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: top, ConfigFiles: []types.ConfigFile{{Filename: file}},
	}, func(o *loader.Options) { o.SetProjectName("modproxy", true) })
	if err != nil {
		t.Fatal(err)
	}
	s, err := project.GetService("modproxy")
	if err != nil {
		t.Fatal(err)
	}
	if image, _, _ := strings.Cut(c.Image, ":"); image != s.Image {
		t.Errorf("compose uses the image %s, and the chart %s", s.Image, c.Image)
	}
	if s.User != "" && s.User != user || len(s.Entrypoint)+len(s.Command) > 0 || s.Init == nil || !*s.Init {
		t.Errorf("compose: user %q, entry point %q, command %q, init %v", s.User, s.Entrypoint, s.Command, s.Init)
	}
	if len(s.Ports) != 1 || fmt.Sprint(s.Ports[0].Target) != port {
		t.Errorf("compose: ports %+v, want %s", s.Ports, port)
	}
	if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == data && v.Type == types.VolumeTypeVolume }) {
		t.Errorf("compose: volumes %+v, want one at %s", s.Volumes, data)
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("compose: capabilities %q, options %q", s.CapDrop, s.SecurityOpt)
	}
}
