// The scripts in testdata/script run the built modproxy with real clients: with Terraform, OpenTofu or both if they have a client
// command, see clientsOf. Only the internet is fake: package registrytest replaces it. Beside the commands of testscript there are these:
//
//	upstream NAME start DIR [KNOB=VALUE…]   start a registry that serves the fixture in DIR
//	upstream NAME load DIR                  serve DIR instead
//	upstream NAME move REPO TAG REVISION    move a tag to the commit of another revision
//	upstream NAME annotate REPO TAG REVISION
//	                                        make an annotated tag of that commit
//	upstream NAME delete REPO TAG           remove a tag, but not its commit
//	upstream NAME set KNOB=VALUE…           turn knobs ([registrytest.Knobs]); KIND.KNOB=VALUE for one kind only
//	upstream NAME down | up                 refuse connections, accept them again
//	internet NAME                           let a proxy of the site lead all https requests from this machine to NAME, which gets
//	                                        a certificate for the two public registries, too
//	internet proxy                          lead the client to modproxy by https, as the DNS of a site does; cert.pem is then for
//	                                        registry.terraform.io, too
//	requests NAME KIND N                    NAME saw N requests of KIND ("all" for any) since the last reset; "N+" for at least N
//	requests NAME KIND=N…                   NAME saw just these requests, and none of another kind
//	requests proxy …                        the same for modproxy, by its own log: discovery, versions, download, head, archive,
//	                                        provider, mirror, zip, zip-head, all
//	connections NAME N                      NAME saw N connections at most since the last reset
//	requests -reset                         count from here on
//	await NAME KIND N                       wait until there were so many requests
//	seen NAME KIND REGEXP                   a request of KIND at NAME, as sent, has a line that matches
//	modproxy ARGS…                          run modproxy; "modproxy serve … &" returns when it is ready
//	measure VARIABLE DURATION               set VARIABLE to DURATION, in seconds, or to ten times what a start of modproxy takes if that
//	                                        is longer: for a time that is to pass after what a script does first
//	end                                     end modproxy with SIGTERM, if that is not sent yet, and want exit code 0
//	signal TERM | HUP | KILL                send a signal; KILL waits for the end
//	logged REGEXP                           wait until a line of modproxy's log matches
//	client [-direct|-mirror|-NAME|-unset] get | init | lock DIR [FLAG…]
//	                                        run the client in DIR, through modproxy, asking the upstreams itself, with
//	                                        modproxy as its provider mirror, with the configuration in NAME.tfrc, or without
//	                                        TF_CLI_CONFIG_FILE; "lock" is providers lock
//	tells TEXT                              what the last program said, in one line, has TEXT in it
//	wrong FILE                              add the errors in the client's output to FILE, wrapped again, with $NAMEs, $HEX
//	                                        and $TIME for parts that vary
//	installs [-var NAME=VALUE]… DIR…        the client's "get" installs in each DIR what "modproxy policy report" says of it
//	generate FIXTURE CONFIGS N SEED         write a fixture, and N directories with configurations, by chance
//	sametree A B                            both trees have the same files, contents and owner's modes; links count as
//	                                        what they point to, .git not at all
//	tree DIR                                print the names of the files in DIR, executables with a star
//	get [-X METHOD] [-d BODY [-sign SECRET]] [-n TIMES] [-H 'NAME: VALUE'] [-o FILE] [-e VARIABLE=REGEXP] [-take N] [-until REGEXP] URL
//	                                        ask as curl -i does, so often at once; fails with a status of 400 and more,
//	                                        and says how many bodies were cut off and whole;
//	                                        -e sets VARIABLE to what the group in REGEXP is in the answer, -take goes away
//	                                        with N bytes of the body, -sign signs BODY as GitHub does, -until asks
//	                                        again and again until the answer begins so, with its status;
//	                                        it comes back as clients do when it is told that the request continues
//	get -once [FLAG…] URL                   ask, and do not come back
//	get [-slow] [FLAG…] URL &               ask so, and go on when the request is sent; -slow takes nothing of the body
//	get -wait                               wait for the answer to that, and take the body
//	token VARIABLE NAME FLAGS…              make a token ("modproxy token create NAME FLAGS…") and set VARIABLE to it
//	issuer start | down                     start an identity provider at $ISSUER_URL, end it
//	issuer sign VARIABLE CLAIM=VALUE…       set VARIABLE to a token of it, for the audience modproxy
//	issuer gives CLAIM=VALUE…|TEXT          give users that log in, and jobs, a token with these claims, or TEXT as a token
//	login HOST                              run the client's login, and be the browser with its user
//	job TITLE DIR                           run the job with this title of docs/how-to/ci-systems.md in DIR, as its CI system
//	                                        does; at GitHub Actions, $ISSUER_URL/job-token gives the token of a job
//	requires DIR ADDRESS[@CONSTRAINT]…      replace DIR by a configuration that requires these providers
//	site [-tls] DIR                         serve what "mirror --to-dir" wrote by nginx, and make the client ask it
//	front [-haproxy|-caddy] http1|http2 [ADDRESS]
//	                                        put nginx or another reverse proxy in front of modproxy, with its configuration in
//	                                        docs/how-to/reverse-proxy.md, at $FRONT; it speaks HTTP/1.1 or HTTP/2 to clients
//	front address VARIABLE                  set VARIABLE to an address for it that is free
//	fronts                                  put both before modproxy, for row
//	row [-http1 CURE|-words CURE] [-unlogged] [-varies] [-mirror] TITLE get|init DIR REASON
//	                                        the client fails behind both fronts and prints REASON, which the log has, too; with
//	                                        -http1 only by HTTP/1.1, with -words not at all; -varies is for what else it prints:
//	                                        see TestReasons
//	certificate CERT KEY FROM UNTIL         write a certificate that is valid from and until such a time from now, and its key
//	expand FILE…                            replace $NAME and ${NAME} in files
//
// Upstream NAME is the registry registry.NAME.example of modules and providers,
// and sets $NAME_URL and $NAME_HOST. A script without a modproxy.yaml is given one
// with the upstreams that it has started. "modproxy serve" sets $PROXY (and
// $PROXY_HOST) and makes what "modproxy client-config" prints the client's
// configuration. [namespaces] says whether a script can make a network namespace,
// [nginx], [haproxy] and [caddy] whether it can run that program, [systemd] whether it can run systemd-socket-activate, and [provider]
// whether there is a real provider,
// $TIME_PROVIDER.
// modproxy does not hedge, so that scripts can count requests on a busy machine; a script about hedging sets
// MODPROXY_EGRESS_HEDGING=true.
// $CLIENT is the client's program, $MODPROXY modproxy, and
// $PLATFORM this machine's, as in linux/amd64; $OS_ARCH is linux_amd64 then.
package main_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/registrytest"
)

var updateScripts = flag.Bool("update-scripts", false, "write what differs in cmp into the scripts; with -parallel 1")

// built is the path of the program that the scripts run.
var built string

func build(t *testing.T) {
	t.Helper()
	// Under the race detector a program sleeps for a second when it ends, to find races of remaining goroutines, unless GORACE says
	// otherwise. The scripts run modproxy some hundred times.
	os.Setenv("GORACE", cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=20"))
	var err error
	if built, err = rig.Program(t.Context(), t.TempDir(), rig.AsTested...); err != nil {
		t.Fatal(err)
	}
}

// stopLine finds testscript's own command "stop", which would skip the rest of a script. To end modproxy, scripts use "end".
var stopLine = regexp.MustCompile(`(?m)^stop\b`)

// clientLine finds a script's first use of the client.
var clientLine = regexp.MustCompile(`(?m)^(! |\[\w+\] )*(client|installs|login|job) |\$CLIENT`)

// TestMain makes this binary usable as the child that reads configurations. Without -parallel it runs three scripts for each processor at
// the same time, because most scripts mostly wait.
func TestMain(m *testing.M) {
	tfconfig.Child()
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", fmt.Sprint(3*runtime.GOMAXPROCS(0)))
	}
	m.Run()
}

func TestScripts(t *testing.T) {
	build(t)
	all, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	nightly, _ := filepath.Glob(filepath.Join("testdata", "script", "nightly", "*.txtar")) // the error is that of the pattern
	if err != nil || len(all) == 0 || len(nightly) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if rig.Long() {
		all = append(all, nightly...)
	}
	clients := rig.Clients(t)
	scripts := map[string][]string{}
	for _, script := range all {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if stopLine.Match(text) {
			t.Errorf("%s: \"stop\" would end the script", script)
		}
		for _, client := range clientsOf(script, text, clients) {
			scripts[client] = append(scripts[client], script)
		}
	}
	for client, list := range scripts {
		t.Run(cmp.Or(client, "plain"), func(t *testing.T) { t.Parallel(); runScripts(t, list, client, clients[client]) })
	}
}

// clientsOf returns the names of the clients to run a script with, or "" for a script without a client. A hash of the script's name
// selects one of the clients; in the long form, it runs with both.
func clientsOf(name string, script []byte, clients map[string]string) []string {
	names := slices.Sorted(maps.Keys(clients))
	switch {
	case !clientLine.Match(script):
		return []string{""}
	case len(names) < 2 || rig.Long():
		return names
	}
	return chosen(name, names)
}

// chosen returns the one of two clients that a hash of the script's name selects.
func chosen(script string, clients []string) []string {
	i := crc32.ChecksumIEEE([]byte(filepath.Base(script))) % 2
	return clients[i : i+1]
}

func runScripts(t *testing.T, scripts []string, name, program string) {
	testscript.Run(t, testscript.Params{
		Files:               scripts,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       *updateScripts,
		Setup:               func(env *testscript.Env) error { return setup(env, name, program) },
		Condition: func(cond string) (bool, error) {
			if cond == "tofu" || cond == "terraform" {
				return cond == name, nil
			}
			switch cond {
			case "namespaces":
				return available(t, "unshare", "--map-root-user", "--net", "--mount", "ip", "link", "set", "lo", "up")
			case "nginx", "haproxy":
				return available(t, cond, "-v")
			case "caddy":
				return available(t, "caddy", "version")
			case "systemd":
				return available(t, "systemd-socket-activate", "--version")
			case "provider":
				return available(t, "test", "-x", realProvider())
			case "oci":
				return available(t, "test", "-x", registrytest.OCIProgram())
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"upstream":    runUpstream,
			"internet":    runInternet,
			"requests":    runRequests,
			"connections": runConnections,
			"await":       runAwait,
			"seen":        runSeen,
			"modproxy":    runModproxy,
			"certificate": writeCertificate,
			"measure":     measure,
			"end":         runEnd,
			"signal":      runSignal,
			"logged":      logged,
			"client":      runClient,
			"tells":       tells,
			"wrong":       wrong,
			"installs":    runInstalls,
			"generate":    runGenerate,
			"site":        runSite,
			"front":       runFront,
			"fronts":      runFronts,
			"row":         runRow,
			"sametree":    sametree,
			"tree":        tree,
			"get":         get,
			"answers":     answers,
			"expand":      expand,
			"requires":    requires,
			"token":       runToken,
			"issuer":      runIssuer,
			"login":       runLogin,
			"job":         runJob,
		},
	})
}

// realProvider is the path of the program that tools/build-provider.sh builds.
func realProvider() string {
	cache, _ := os.UserCacheDir() // without a cache directory the program does not exist
	return filepath.Join(cache, "modproxy-tools", "terraform-provider-time")
}

// available reports whether a script can use a feature, which it can if program succeeds. In runs that must not skip tests, a missing
// feature is an error.
func available(t *testing.T, program string, args ...string) (bool, error) {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil && rig.Required() {
		return false, fmt.Errorf("%s: %w: %s", program, err, out)
	}
	if err != nil {
		t.Logf("NOT RUN: %s: %v: %s", program, err, out)
	}
	return err == nil, nil
}

// setup gives a script its own environment, without the settings of the user.
func setup(env *testscript.Env, name, program string) error {
	ca := filepath.Join(env.WorkDir, "ca.pem")
	w := &world{t: env.T(), dir: env.WorkDir, tool: name, program: program, upstreams: map[string]*registrytest.Upstream{}}
	_, err := os.Stat(w.path("modproxy.yaml"))
	w.ownConfig = err == nil
	env.Values[worldKey{}] = w
	env.Defer(w.close)
	for _, v := range []string{
		"HOME=" + w.path("home"),
		"CLIENT=" + program,
		"TIME_PROVIDER=" + realProvider(),
		"MODPROXY=" + built,
		"CHECKPOINT_DISABLE=1",
		"PLATFORM=" + runtime.GOOS + "/" + runtime.GOARCH,
		"OS_ARCH=" + runtime.GOOS + "_" + runtime.GOARCH,
		"TF_IN_AUTOMATION=1",
		"TF_CLI_CONFIG_FILE=" + w.path("proxied.tfrc"),
		"SSL_CERT_FILE=" + ca,
		"GIT_SSL_CAINFO=" + ca,
		"GORACE=" + os.Getenv("GORACE"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"MODPROXY_CONFIG=" + w.path("modproxy.yaml"),
		"MODPROXY_LISTEN=127.0.0.1:0",
		"MODPROXY_DATA=" + w.path("data"),
		"MODPROXY_EGRESS_CA_FILE=" + ca,
		"MODPROXY_EGRESS_HEDGING=false",
	} {
		key, value, _ := strings.Cut(v, "=")
		env.Setenv(key, value)
	}
	w.env = env.Vars
	return errors.Join(
		os.Mkdir(w.path("home"), 0o700),
		w.writeConfigs(),
		registrytest.CA().WriteFiles(env.WorkDir, "127.0.0.1", frontHost, "localhost", "registry.terraform.io"),
	)
}
