//go:build !linux

package main

import "os/exec"

func pin() error { return nil }

func startApart(cmd *exec.Cmd) error { return cmd.Start() }
