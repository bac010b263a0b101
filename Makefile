# Every task has its door here. "make test" is what a change must pass.

# Without the path of the checkout in what is built, the cache of builds serves every checkout.
export GOFLAGS := $(GOFLAGS) -trimpath

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build test check race plain scripts fuzz nightly bench load clients real hostile faults mutants tools clean

PROGRAM = modproxy

build: ## the program, ./modproxy, without cgo and the tables of debuggers, as it is released
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $(PROGRAM) ./cmd/modproxy

test: build check race plain ## what a change must pass: static checks, tests of packages under the race detector, the other tests

check: build ## gofmt, vet, staticcheck, exhaustive switches, govulncheck, the words of CONTRIBUTING.md, what is linked
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(STATICCHECK) ./...
	go tool -modfile=tools/lint/go.mod exhaustive -default-signifies-exhaustive -ignore-enum-types 'reflect\.Kind|token\.Type' ./...
	go run -C tools ./prose
	tools/linked.sh
	tools/vulncheck.sh

# In these packages no goroutines share values, or the tests run programs and try many inputs: the race detector would take minutes there.
SERIAL = bundle|closure|config|conformance|fetch/archive|fetch/git|hostname|internal/(boltfile|clean|durable|filelock|hint|retry|versionname)|lock|lockfile|observe|pack|protocol(/documents)?|release|rewrite|static|tfconfig
shared = $$(go list ./... | grep -vE '/modproxy/(cmd|test)/|/modproxy/($(SERIAL))$$')
serial = $$(go list ./... | grep -E '/modproxy/($(SERIAL))$$|/modproxy/test/')
# A name of a list in test, as a pattern.
unraced = $(shell sed -n 's/^\(Test[^ ]*\) .*/^\1$$/p' test/unraced | sort -u | paste -sd '|')
only_nightly = $(shell sed -n '/^Test/ { s,/,$$/^,; s/.*/^&$$/; p; }' test/nightly | paste -sd '|')

race: tools ## the tests of the packages in which goroutines share values, under the race detector but for those in test/unraced
	go test -vet off -race -p 3 -timeout 60m -skip '$(unraced)' $(shared)
	go test -vet off -timeout 60m -run '$(unraced)' $(shell sed -n 's,^Test[^ ]* ,./,p' test/unraced | sort -u)

plain: tools ## the tests of the program, of the other packages, and in the worlds below test, but for those in test/nightly
	go test -vet off -p 3 -timeout 60m -skip '$(only_nightly)' ./cmd/... $(serial)

scripts: tools ## the tests of the program: what users see, every script with Terraform or OpenTofu, as its name chooses
	go test -timeout 60m ./cmd/...

fuzz: ## every fuzz target for FUZZTIME (10s)
	tools/fuzz.sh

nightly: tools ## all tests, in full: those that "make test" leaves out, property tests, the race detector everywhere, both clients, fuzzing
	RIG_LONG=1 go test -count 1 -timeout 120m $$(go list ./... | grep -v -e /test/ -e /cmd/) ./test/registrytest
	go test -race -count 1 -timeout 120m -skip '^TestDescribeLong$$|^TestHostile$$/^memory$$' $$(go list ./... | grep -v /cmd/)
	RIG_LONG=1 go test -race -count 1 -timeout 120m ./cmd/...
	tools/fuzz.sh

bench: ## every benchmark, then modproxy beside git and nginx: see test/bench/main.go; BENCH has its flags
	go test -run '^$$' -bench . -benchmem ./...
	go run ./test/bench $(BENCH)

load: ## what holds under load: LEVELS (L1,L3), SCALE (0.1 for a tenth of the time), or the soak: SOAK=8h; LOAD has more flags of test/load
	go run ./test/load -scale $(or $(SCALE),1) $(if $(LEVELS),-levels $(LEVELS),$(if $(SOAK),-levels L8)) $(if $(SOAK),-soak $(SOAK)) $(LOAD)

clients: tools ## the programs that ask a registry, in many versions, through modproxy; makes them the first time
	go run ./test/clients -build
	go run ./test/clients

real: tools ## every version of real modules, beside what git checks out; REPOS names a directory of bare repositories, REAL has flags
	go run ./test/real -repos "$(REPOS)" $(REAL)

hostile: tools ## the program in a hostile world, in full length; takes minutes, and root or user namespaces
	RIG_LONG=1 go test -count 1 -timeout 30m ./test/hostile

faults: ## the program killed, without power and without space, hundreds of times, and its files corrupted a thousand times; takes hours, and root; FAULTS_SEED goes on with a corruption
	RIG_LONG=1 go test -v -count 1 -timeout 240m ./test/faults

mutants: ## that the hostile world, and tests of packages, find programs that break a promise
	test/hostile/mutants/run.sh

tools: ## the clients and the provider that the tests run; Terraform is taken from PATH
	tools/build-tofu.sh
	tools/build-provider.sh
	go run ./test/clients -build ci

clean:
	rm -f modproxy
