package admin

import "context"

// Process is the process that serves. Its methods are safe for concurrent use.
type Process interface {
	// Status returns the status of the process, without Drift, Pending and Rules.
	Status(ctx context.Context) Status
	// Configuration returns the keys of the configuration in force, without secrets.
	Configuration() ([]ConfigKey, error)
	// Reload reads the certificate and the rules of the policy again. If they have a mistake, the error has the mistakes, and the previous ones
	// stay in force.
	Reload(ctx context.Context) (Reloaded, error)
	// LogLevel returns the lowest level that is logged.
	LogLevel() LogLevel
	// SetLogLevel sets the lowest level that is logged, until the process ends. The error is [modproxy.ErrInvalid] for an unknown level.
	SetLogLevel(level string) error
}

// A ConfigKey is a key of the configuration of a process.
type ConfigKey struct {
	Key    string   `json:"key"`
	Value  any      `json:"value"`
	Source string   `json:"source"` // a file with a line, a variable, a flag, or "default"
	YAML   []string `json:"yaml"`   // the lines of the value in a configuration file
}

// Reloaded is the result of a reload.
type Reloaded struct {
	Reloaded []string `json:"reloaded"`                 // "tls", "policy" or both
	Rules    int      `json:"rules"`                    // number of rules in force
	Restart  []string `json:"restart_needed,omitempty"` // changed keys that take effect after a restart
}

// LogLevel is the lowest level that a process logs.
type LogLevel struct {
	Level      string `json:"level"`
	Configured string `json:"configured,omitempty"` // the value of the key log.level
}

func (s *Server) configuration(_ context.Context, _ none, each func(ConfigKey)) (done none, err error) {
	all, err := s.Process.Configuration()
	for _, k := range all {
		each(k)
	}
	return done, err
}

func (s *Server) reload(ctx context.Context, _ none, _ func(none)) (Reloaded, error) {
	return s.Process.Reload(ctx)
}

func (s *Server) logLevel(context.Context, none, func(none)) (LogLevel, error) {
	return s.Process.LogLevel(), nil
}

func (s *Server) setLogLevel(_ context.Context, in LogLevel, _ func(none)) (LogLevel, error) {
	err := s.Process.SetLogLevel(in.Level)
	return s.Process.LogLevel(), err
}
