// Package rig runs the built program, its clients and its servers for the tests in test/.
//
//	program, err := rig.Program(ctx, dir)
//	p, err := rig.Start(exec.Command(program, "--config", file), log)
//	url, err := p.URL(ctx)
//
// It builds modproxy, starts and stops it, waits until it is ready, measures it, sends requests, answers for name
// servers, serves ssh, and runs Terraform and OpenTofu. A [World] runs the tests of a package again in namespaces of their own.
//
// Three environment variables apply to all these tests: RIG_PROGRAM is the path of a built modproxy, RIG_LONG=1 runs
// shortened tests in full length, and RIG_ROLE is the role of a process that was run again.
package rig
