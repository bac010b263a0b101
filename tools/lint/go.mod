module github.com/modproxy/modproxy/tools/lint

go 1.26.6

tool github.com/nishanths/exhaustive/cmd/exhaustive

require (
	github.com/nishanths/exhaustive v0.12.0 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)
