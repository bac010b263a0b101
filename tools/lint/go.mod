module github.com/modproxy/modproxy/tools/lint

go 1.26.6

tool github.com/modproxy/modproxy/tools/lint

require (
	github.com/nishanths/exhaustive v0.12.0
	golang.org/x/tools v0.51.0
)

require golang.org/x/sync v0.23.0 // indirect
