// Package rig has what the worlds around the built program share: they build
// modproxy, start it, wait until it is ready and end it, see what it uses, ask it
// over HTTP, answer for the name servers, run Terraform and OpenTofu, and run themselves again in
// namespaces of their own.
//
// Three variables of the environment rule all of them: RIG_PROGRAM names a
// modproxy that is built already, RIG_LONG=1 has what is cut down run in full
// length, and RIG_ROLE tells a process that was run again what it is.
package rig
