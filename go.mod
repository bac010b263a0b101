module github.com/modproxy/modproxy

go 1.26.0
