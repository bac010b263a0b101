package chart_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const namespace = "modproxy"

// strategies are those with which the API server creates objects.
var strategies = map[string]rest.RESTCreateStrategy{
	"StatefulSet":           statefulset.Strategy,
	"ConfigMap":             configmap.Strategy,
	"PersistentVolumeClaim": persistentvolumeclaim.Strategy,
	"Service":               service.Strategy,
	"NetworkPolicy":         networkpolicy.Strategy,
	"Ingress":               ingress.Strategy,
	"PodDisruptionBudget":   poddisruptionbudget.Strategy,
}

// warnings collects the warnings of the API server.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// admit returns the object in a document as the API server would store it, or the reason for which the server, or kubectl before it,
// would refuse it or print a warning.
func admit(document string) (runtime.Object, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return nil, err
	}
	if kind.Kind == monitoring.ServiceMonitorsKind {
		var m monitoring.ServiceMonitor
		return &m, yaml.UnmarshalStrict([]byte(document), &m)
	}
	scheme := legacyscheme.Scheme
	object, version, err := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true}).
		Decode([]byte(document), nil, nil)
	if err != nil {
		return nil, err
	}
	scheme.Default(object)
	internal, err := scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	metadata := internal.(meta.Object)
	metadata.SetNamespace(namespace)
	rest.FillObjectMetaSystemFields(metadata)
	var warned warnings
	ctx := warning.WithWarningRecorder(request.WithNamespace(context.Background(), namespace), &warned)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: version.Group, APIVersion: version.Version})
	strategy, ok := strategies[version.Kind]
	if !ok {
		return nil, fmt.Errorf("no strategy for %s", version)
	}
	if err := rest.BeforeCreate(strategy, ctx, internal); err != nil {
		return nil, err
	}
	if len(warned) > 0 {
		return nil, errors.New(strings.Join(warned, "; "))
	}
	return object, nil
}

// release has the objects of one release of the chart.
type release struct {
	objects []runtime.Object
	set     *apps.StatefulSet
	service *core.Service
	config  *core.ConfigMap // nil with existingConfig
}

func (r release) container() core.Container { return r.set.Spec.Template.Spec.Containers[0] }

func (r release) has(kind string) bool {
	return slices.ContainsFunc(r.objects, func(o runtime.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == kind })
}

// admitAll returns the objects in documents. It fails if the API server would not store one of them.
func admitAll(t *testing.T, documents []string) release {
	t.Helper()
	var r release
	for _, document := range documents {
		object, err := admit(document)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		r.objects = append(r.objects, object)
		switch o := object.(type) {
		case *apps.StatefulSet:
			r.set = o
		case *core.Service:
			r.service = o
		case *core.ConfigMap:
			r.config = o
		}
	}
	if r.set == nil || r.service == nil {
		t.Fatal("the StatefulSet or the Service is missing")
	}
	return r
}

// TestAdmit: the API server admits every object, also in a namespace that admits only pods of the profile "restricted", and the
// objects fit together.
func TestAdmit(t *testing.T) {
	levels, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			r := admitAll(t, mustRender(t, values))
			template := r.set.Spec.Template
			for _, result := range levels.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
			r.checkPod(t)
			for _, object := range r.objects {
				r.checkObject(t, object)
			}
		})
	}
}

// checkPod checks what the API server does not require.
func (r release) checkPod(t *testing.T) {
	pod := r.set.Spec.Template.Spec
	c := r.container()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks || !*pod.ShareProcessNamespace {
		t.Error("the pod has a token of its service account, variables of services, or no init process")
	}
	if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
	if *r.set.Spec.Replicas != 1 || len(c.Command)+len(c.Args) > 0 {
		t.Errorf("%d replicas, command %q, arguments %q", *r.set.Spec.Replicas, c.Command, c.Args)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources %v", c.Resources)
	}
	for _, v := range pod.Volumes {
		switch source := v.VolumeSource; {
		case source.Secret != nil && *source.Secret.DefaultMode != 0o440:
			t.Errorf("secret %s has mode %#o", source.Secret.SecretName, *source.Secret.DefaultMode)
		case source.ConfigMap != nil && v.Name == "config" && (r.config == nil || r.config.Name != source.ConfigMap.Name):
			t.Errorf("the ConfigMap %s does not exist", source.ConfigMap.Name)
		}
	}
}

// checkObject checks that an object selects the pod or the service of the release, and names existing ports.
func (r release) checkObject(t *testing.T, object runtime.Object) {
	selects := func(what string, selector *meta.LabelSelector, of map[string]string) {
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(of)) {
			t.Errorf("%T: %s %v does not match the labels %v (%v)", object, what, s, of, err)
		}
	}
	pod := r.set.Spec.Template.Labels
	port := r.container().Ports[0].Name
	switch o := object.(type) {
	case *core.Service:
		selects("selector", &meta.LabelSelector{MatchLabels: o.Spec.Selector}, pod)
		if len(o.Spec.Ports) != 1 || o.Spec.Ports[0].TargetPort.String() != port || !o.Spec.PublishNotReadyAddresses {
			t.Errorf("Service: %+v", o.Spec)
		}
		if want := map[bool]int32{false: 80, true: 443}[r.scheme() == core.URISchemeHTTPS]; o.Spec.Ports[0].Port != want {
			t.Errorf("Service: port %d, want %d", o.Spec.Ports[0].Port, want)
		}
	case *policy.PodDisruptionBudget:
		selects("selector", o.Spec.Selector, pod)
	case *networking.NetworkPolicy:
		selects("podSelector", &o.Spec.PodSelector, pod)
		if len(o.Spec.PolicyTypes) != 2 || len(o.Spec.Ingress) != 1 || len(o.Spec.Ingress[0].Ports) != 1 || o.Spec.Ingress[0].Ports[0].Port.String() != port {
			t.Errorf("NetworkPolicy: %+v", o.Spec)
		}
	case *networking.Ingress:
		backend := o.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if backend.Name != r.service.Name || backend.Port.Name != r.service.Spec.Ports[0].Name {
			t.Errorf("Ingress: backend %+v", backend)
		}
	case *monitoring.ServiceMonitor:
		selects("selector", &o.Spec.Selector, r.service.Labels)
		e := o.Spec.Endpoints[0]
		if e.Port != r.service.Spec.Ports[0].Name || e.Authorization == nil || e.Authorization.Credentials.Name == "" {
			t.Errorf("ServiceMonitor: %+v", e)
		}
		if https := e.Scheme != nil && strings.EqualFold(e.Scheme.String(), "https"); https != (r.scheme() == core.URISchemeHTTPS) {
			t.Errorf("ServiceMonitor: scheme %v, probes with %s", e.Scheme, r.scheme())
		}
	}
}

func (r release) scheme() core.URIScheme { return r.container().LivenessProbe.HTTPGet.Scheme }

// TestChoices: values that turn something on or off do so.
func TestChoices(t *testing.T) {
	all := cases(t)
	r := func(name string) release { return admitAll(t, mustRender(t, all[name])) }
	for _, want := range []struct {
		name, kind string
		has        bool
	}{
		{"defaults", "Ingress", false}, {"defaults", "ServiceMonitor", false}, {"defaults", "NetworkPolicy", true},
		{"defaults", "PodDisruptionBudget", true}, {"defaults", "PersistentVolumeClaim", true}, {"ingress", "Ingress", true},
		{"monitoring", "ServiceMonitor", true}, {"existing-config", "ConfigMap", false}, {"existing-config", "PersistentVolumeClaim", false},
		{"small", "NetworkPolicy", false}, {"small", "PodDisruptionBudget", false},
	} {
		if r(want.name).has(want.kind) != want.has {
			t.Errorf("%s: has a %s: %v, want %v", want.name, want.kind, !want.has, want.has)
		}
	}
	egress := func(name string) string {
		for _, o := range r(name).objects {
			if p, ok := o.(*networking.NetworkPolicy); ok {
				var ports []string
				for _, rule := range p.Spec.Egress {
					for _, port := range rule.Ports {
						ports = append(ports, fmt.Sprint(*port.Protocol, " ", port.Port))
					}
				}
				return strings.Join(ports, ", ")
			}
		}
		return "no policy"
	}
	for name, want := range map[string]string{
		"defaults": "UDP 53, TCP 53, TCP 443", "credentials": "UDP 53, TCP 53, TCP 443, TCP 22", "air-gap": "",
		"monitoring": "UDP 53, TCP 53, TCP 443, TCP 3128",
	} {
		if ports := egress(name); ports != want {
			t.Errorf("%s: the network policy allows %q, want %q", name, ports, want)
		}
	}
	if v := r("air-gap"); !v.set.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly || !v.container().VolumeMounts[0].ReadOnly {
		t.Error("air-gap: the volume is not read-only")
	}
	if claim := r("existing-config").set.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; claim != "modproxy-data" {
		t.Errorf("existing-config: claim %s", claim)
	}
}
