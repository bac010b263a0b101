//go:build !linux

package main

import (
	"context"
	"errors"
)

func (s *soak) mount() error { return errors.New("that takes Linux") }

func (s *soak) unmount() error { return nil }

func (s *soak) fill(context.Context) error {
	s.during(nothing)()
	return nil
}
