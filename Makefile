# The tasks of development. Every change must pass "make test".

# Built files do not contain the path of the checkout, so that all checkouts share the build cache.
export GOFLAGS := $(GOFLAGS) -trimpath
# Everything is built as the program is released, without C, so that packages are compiled once. The race detector needs C.
export CGO_ENABLED := 0

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build test check race plain scripts fuzz nightly bench load clients real hostile faults mutants chart tools \
	release packages release-check clean

PROGRAM = modproxy

build: ## builds the program as it is released, ./modproxy
	go build -ldflags '-s -w' -o $(PROGRAM) ./cmd/modproxy

test: check ## runs static checks, then tests of packages under the race detector and the other tests, both at once
	$(MAKE) -j 2 race plain

check: build ## runs gofmt, vet, staticcheck and govulncheck; checks exhaustive switches, rejected words and linked modules
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(STATICCHECK) ./...
	go vet -vettool="$$(go tool -C tools/lint -n lint)" -exhaustive.default-signifies-exhaustive -exhaustive.ignore-enum-types 'reflect\.Kind|token\.Type' ./...
	go run -C tools ./prose
	go test -C tools ./prose
	go test -C tools/schema .
	go vet -C tools/release ./...
	go test -C tools/release ./...
	tools/linked.sh
	tools/vulncheck.sh

# Packages whose tests run without the race detector: their goroutines share no values, or their tests run programs and try many
# inputs, which takes minutes with it.
SERIAL = bundle|closure|config|conformance|fetch/archive|fetch/git|hostname|internal/(boltfile|clean|durable|exacttar|filelock|hint|retry|versionname)|lock|lockfile|observe|pack|protocol(/documents)?|release|rewrite|static|tfconfig
shared = $$(go list ./... | grep -vE '/modproxy/(cmd|test)/|/modproxy/($(SERIAL))$$')
serial = $$(go list ./... | grep -E '/modproxy/($(SERIAL))$$|/modproxy/test/')
# Patterns that match the names in the lists test/unraced and test/nightly.
unraced = $(shell sed -n 's/^\(Test[^ ]*\) .*/^\1$$/p' test/unraced | sort -u | paste -sd '|')
only_nightly = $(shell sed -n '/^Test/ { s,/,$$/^,; s/.*/^&$$/; p; }' test/nightly | paste -sd '|')

race: tools ## runs the tests of packages in which goroutines share values, under the race detector except those in test/unraced
	CGO_ENABLED=1 go test -vet off -race -timeout 60m -skip '$(unraced)' $(shared)
	go test -vet off -timeout 60m -run '$(unraced)' $(shell sed -n 's,^Test[^ ]* ,./,p' test/unraced | sort -u)

plain: build tools ## runs the tests of the program, of the other packages, and of the packages below test, except those in test/nightly
	RIG_PROGRAM=$(CURDIR)/$(PROGRAM) go test -vet off -timeout 60m -skip '$(only_nightly)' ./cmd/... $(serial)

scripts: tools ## runs the tests of the program: each script with Terraform or OpenTofu, as its name chooses
	go test -timeout 60m ./cmd/...

fuzz: ## runs every fuzz target for FUZZTIME (10s)
	tools/fuzz.sh

nightly: tools ## runs what "make test" leaves out: property tests in full, every package under the race detector, both clients, fuzzing
	RIG_LONG=1 go test -count 1 -timeout 120m $$(go list ./... | grep -v -e /test/ -e /cmd/) ./test/registrytest
	CGO_ENABLED=1 go test -race -count 1 -timeout 120m -skip '^TestDescribeLong$$|^TestHostile$$/^memory$$' $$(go list ./... | grep -v /cmd/)
	CGO_ENABLED=1 RIG_LONG=1 go test -race -count 1 -timeout 120m ./cmd/...
	tools/fuzz.sh
	$(MAKE) chart

bench: ## runs every benchmark, then compares modproxy with git and nginx (test/bench); BENCH has flags of test/bench
	go test -run '^$$' -bench . -benchmem ./...
	go run ./test/bench $(BENCH)

load: ## reports which bounds hold under load; LEVELS (L1,L3), SCALE (0.1 for a tenth of the time), SOAK (8h for the soak), LOAD (flags of test/load)
	go run ./test/load -scale $(or $(SCALE),1) $(if $(LEVELS),-levels $(LEVELS),$(if $(SOAK),-levels L8)) $(if $(SOAK),-soak $(SOAK)) $(LOAD)

clients: tools ## runs many versions of the programs that read registries, through modproxy; builds them the first time
	go run ./test/clients -build
	go run ./test/clients

real: tools ## compares every version of real modules with git; REPOS names a directory of bare repositories, REAL has flags of test/real
	go run ./test/real -repos "$(REPOS)" $(REAL)

hostile: tools ## runs the program among hostile registries, sources and clients, in full; takes minutes, needs root or user namespaces
	RIG_LONG=1 go test -count 1 -timeout 30m ./test/hostile

faults: ## kills the program, cuts its power and disk space, and corrupts its files; takes hours, needs root; FAULTS_SEED=N begins with corruption N
	RIG_LONG=1 go test -v -count 1 -timeout 240m ./test/faults

mutants: ## checks that "make hostile" and tests of packages detect programs that break a promise
	test/hostile/mutants/run.sh

chart: ## checks the Helm chart, deploy/manifest.yaml and docker-compose.yml with the code of Kubernetes, Helm and Compose, without a cluster
	go test -C tools/chart -count 1 .

tools: ## builds the clients, the provider and the OCI registry that the tests run; Terraform must be on PATH
	tools/build-tofu.sh
	tools/build-provider.sh
	tools/build-registry.sh
	go run ./test/clients -build ci

release: ## writes the files of a release of the commit HEAD into dist/; VERSION=v0.1.0, and KEY=FILE for an SSH key that signs
	tools/debian.sh mmdebstrap
	rm -rf dist
	go run -C tools/release . -version "$(VERSION)" -commit HEAD -out "$(CURDIR)/dist" -key "$(KEY)"

packages: ## builds the .deb and the .rpm, and installs, upgrades and removes them in a Debian root; needs root
	tools/debian.sh mmdebstrap rpm systemd-container
	go test -v -count 1 -timeout 30m -skip '$(only_nightly)' ./test/packages

release-check: ## builds a release twice, compares both, and starts its packages and its image; needs root
	tools/debian.sh mmdebstrap openssh-client qemu-user-static rpm runc systemd-container umoci
	RIG_LONG=1 go test -v -count 1 -timeout 120m ./test/packages

clean:
	rm -rf modproxy dist
