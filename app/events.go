package app

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
)

// An event is a kind of entry in the log. Its name is the message of the entry.
type event struct {
	name   string
	level  zapcore.Level // of an entry about a failure at least Warn
	when   string        // for docs/reference/log-events.md, in Markdown
	fields string        // names of the fields beside module, version, platform and error, separated by spaces
}

// eventGroups has every event of the log, as docs/reference/log-events.md lists them.
var eventGroups = []struct {
	title  string
	events []event
}{
	{"Requests and downloads", []event{
		{"request", zap.InfoLevel, "A client received an answer. For a request about a healthy state the level is debug.",
			"kind method path status client user_agent cache principal groups seconds bytes"},
		{"versions_asked", zap.InfoLevel, "modproxy requested a list of versions from a registry.", "seconds"},
		{"location_asked", zap.InfoLevel, "modproxy requested the location of a package from a registry.", "seconds"},
		{"details_asked", zap.InfoLevel, "modproxy requested the description of a version from a registry.", "seconds"},
		{"history_asked", zap.InfoLevel, "modproxy requested the dates of versions from a registry.", "seconds"},
		{"downloads_asked", zap.InfoLevel, "modproxy requested numbers of downloads from a registry.", "seconds"},
		{"list_asked", zap.InfoLevel, "modproxy requested a list of modules or providers from a registry.", "seconds"},
		{"fetch_started", zap.DebugLevel, "The download of a package started.", ""},
		{"fetch_ended", zap.InfoLevel, "The download of a package ended.", "seconds bytes"},
		{"version_dropped", zap.WarnLevel, "A registry no longer lists a version that modproxy has served.", ""},
		{"version_listed", zap.InfoLevel, "A registry lists such a version again.", ""},
		{"nested", zap.InfoLevel, "A package was derived with [nested sources](../how-to/nested-sources.md).", "sources left"},
		{"webhook", zap.InfoLevel, "After a [webhook](../how-to/webhooks.md), modproxy requested the versions of so many modules of a repository.", "repository modules"},
		{"connection_failed", zap.WarnLevel, "A TLS handshake failed; at most six entries a minute.", "others"},
	}},
	{"The ledger", []event{
		{"ledger_recorded", zap.InfoLevel, "A version was downloaded for the first time.", "sum source commit mirror"},
		{"ledger_renewed", zap.InfoLevel, "A release of a provider has more packages than its record in the ledger.", "sum reason"},
		{"ledger_drifted", zap.ErrorLevel, "Other content was offered and refused, see [Changed content](../how-to/changed-content.md).", "recorded offered source commit mirror"},
		{"modules_host_recorded", zap.InfoLevel, "modproxy recorded the host of own modules. Once versions are recorded under it, it cannot change.", "host"},
		{"ledger_failed", zap.ErrorLevel, "The ledger did not answer, or did not accept a record.", ""},
		{"ledger_recheck", zap.InfoLevel, "A recheck could not check a version; or, at level warn, found it at another commit.", "recorded commit"},
		{"ledger_behind", zap.WarnLevel, "The ledger had no record of a stored package. It has one now.", ""},
		{"ledger_disagrees", zap.WarnLevel, "A stored package differs from its record in the ledger, and is not served.", ""},
		{"decided", zap.InfoLevel, "An operator blocked, approved, rejected or deprecated versions.", "versions action until by reason"},
		{"imported", zap.InfoLevel, "A bundle was imported. The other fields count its entries.", "chain sequence added kept refused absent decided"},
	}},
	{"Storage", []event{
		{"evicted", zap.InfoLevel, "A package was removed to make room.", "digest bytes"},
		{"blob_damaged", zap.ErrorLevel, "A stored package is damaged, lost or unreadable.", "digest bytes"},
		{"storage_failed", zap.ErrorLevel, "The storage failed in background work.", ""},
		{"index_failed", zap.ErrorLevel, "An answer was served, but could not be stored or read.", ""},
		{"packages_missing", zap.WarnLevel, "At the start, records of the store without packages were found. The note says what to do.", "packages note"},
		{"packages_without_record", zap.WarnLevel, "At the start, packages without records in the store were found. The note says what to do.", "packages note"},
		{"versions_gone", zap.InfoLevel, "Lists of versions were removed to respect `cache.max_versions`.", "bytes"},
		{"catalog_gone", zap.InfoLevel, "Descriptions or dates were removed to respect `cache.max_versions`.", "bytes"},
		{"cache_unbounded", zap.WarnLevel, "At the start, `cache.max_size` is not set. The note says what to do.", "note"},
		{"disk_filling", zap.WarnLevel, "The file system of the data directory has become 80 % full, and `cache.max_size` is not set.", "percent free note"},
		{"data_read_only", zap.WarnLevel, "The data directory is read-only.", ""},
		{"sights_failed", zap.WarnLevel, "First-seen times could not be recorded.", ""},
		{"requests_failed", zap.WarnLevel, "Missed requests could not be recorded.", ""},
		{"downloads_failed", zap.WarnLevel, "Counts of downloads could not be recorded.", ""},
	}},
	{"Policy, tokens, mirrors", []event{
		{"policy_audit", zap.InfoLevel, "In audit mode, the policy would have denied an answer.", "question client groups outcome versions"},
		{"policy_groups", zap.WarnLevel, "Rules name groups in which no client can be.", ""},
		{"policy_providers", zap.WarnLevel, "No rule of the policy is about providers.", ""},
		{"tokens_failed", zap.WarnLevel, "The token file cannot be read.", ""},
		{"tokens_unprotected", zap.WarnLevel, "Tokens cross a network without TLS.", "listen"},
		{"token_created", zap.InfoLevel, "An operator created a token by the operator's API.", "name id scopes admin refresh expires by"},
		{"token_revoked", zap.InfoLevel, "An operator revoked a token by the operator's API.", "name id scopes admin refresh expires by"},
		{"issuer_asked", zap.InfoLevel, "The keys of an issuer were requested.", "issuer"},
		{"mirrored", zap.InfoLevel, "A [mirror](../how-to/mirror.md#have-the-proxy-mirror-by-itself) has ended; at level warn with problems.",
			"mirror fetched bytes kept bypassed problems seconds"},
		{"mirror_problem", zap.WarnLevel, "A mirror could not get a package.", "mirror problem"},
		{"mirror_bypassed", zap.WarnLevel, "A configuration of a mirror has a call that bypasses modproxy.", "mirror problem"},
	}},
	{"The process", []event{
		{"started", zap.InfoLevel, "modproxy answers requests.", "version listen data config offline auth"},
		{"socket_passed", zap.InfoLevel, "A service manager has passed the listening socket. `listen` of the configuration does not count.", "address"},
		{"data_awaited", zap.InfoLevel, "The process that has the data directory is ending, and this one waits for it.", "owner"},
		{"stopping", zap.InfoLevel, "A signal ends modproxy; so many requests are running.", "signal requests"},
		{"handed_over", zap.InfoLevel, "The data directory is closed for the next process; so many packages are still being sent. See [Restart](../how-to/restart.md).", "seconds requests"},
		{"stopped", zap.InfoLevel, "modproxy has ended; so many answers were cut.", "seconds requests_cut"},
		{"reloaded", zap.InfoLevel, "The certificate or the rules were reloaded.", "what rules not_after"},
		{"reload_failed", zap.ErrorLevel, "The certificate or the rules could not be reloaded. The old ones stay in force.", ""},
		{"restart_needed", zap.WarnLevel, "Other keys of the configuration have changed.", "keys"},
		{"log_level", zap.InfoLevel, "The owner of the data directory set the log level until a restart.", "before now"},
		{"certificate_expires", zap.WarnLevel, "The certificate expires within seven days, or is not valid yet.", "file not_before not_after"},
		{"config_deprecated", zap.WarnLevel, "A key of the configuration has a new name.", ""},
		{"reasons_lost", zap.WarnLevel, "A [reverse proxy](../how-to/reverse-proxy.md) drops the reasons of errors.", "public_url problem note"},
		{"git_missing", zap.WarnLevel, "The git program is missing, too old, or has not answered in time. `/-/readyz` checks it again.", ""},
		{"connections_lowered", zap.WarnLevel, "The system allows fewer open files than `limits.connections` needs.", "connections open_files"},
		{"socket_failed", zap.WarnLevel, "Verbs cannot reach this process by its socket, and need `--server`.", "note"},
		{"fetches_cut", zap.WarnLevel, "Downloads were in progress when modproxy ended.", "modules"},
		{"preparations_left", zap.WarnLevel, "Preparations of nested sources were in progress when modproxy ended.", ""},
	}},
}

// levels are the levels of eventGroups by name.
var levels = func() map[string]zapcore.Level {
	all := map[string]zapcore.Level{}
	for _, g := range eventGroups {
		for _, e := range g.events {
			all[e.name] = e.level
		}
	}
	return all
}()

// logEvent logs an event of eventGroups, with err if it is not nil.
func logEvent(log *zap.Logger, name string, err error, fields ...zap.Field) {
	logOutcome(log, name, err != nil, append(fields, errorField(err))...)
}

// logOutcome logs an event of eventGroups, at least at level Warn if failed is true.
func logOutcome(log *zap.Logger, name string, failed bool, fields ...zap.Field) {
	level := levels[name]
	if failed {
		level = max(level, zap.WarnLevel)
	}
	if entry := log.Check(level, name); entry != nil {
		entry.Write(fields...)
	}
}

// logVersion logs an event of eventGroups about a version, a module or, if v is zero, nothing in particular.
func (p *parts) logVersion(name string, failed bool, v modproxy.Ref, err error, fields ...zap.Field) {
	of := versionname.Of(v)
	if v.Content() == modproxy.KeysContent {
		of.Version = of.ShownVersion()
	}
	logOutcome(p.log, name, failed, append([]zap.Field{
		unless(of.Module == "", zap.String("module", of.Module)),
		unless(of.Version == "", zap.String("version", of.Version)),
		unless(of.Platform == "", zap.String("platform", of.Platform)),
	}, append(fields, errorField(err))...)...)
}
