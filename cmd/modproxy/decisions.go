package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newApproveCommand(env *environment) *cobra.Command {
	in := admin.DecisionRequest{Action: modproxy.Approve}
	cmd := env.withServer(&cobra.Command{
		Use:   "approve MODULE VERSION|CONSTRAINT",
		Short: "Allow versions that wait for approval",
		Long: `Approve a version, or all versions that a constraint such as '~> 5.1' selects.
The approval is in force where a rule of the policy has "approval: required",
even before the versions reach its "min_age". Versions that no rule allows, or
that a rule denies, stay denied.

The last decision is in force: "modproxy reject" ends an approval.

` + addressUsage,
		Example: `  modproxy approve acme/vpc/aws 1.2.0 --reason 'reviewed'
  modproxy approve acme/vpc/aws '~> 5.1' --until 2030-01-31`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return env.decide(cmd, in, args) },
	})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "one line of `text`: the reason")
	addForce(cmd, &in)
	addFlag(cmd, &in.Until, "until", "`date` or time at which the approval ends, such as 2030-01-31 or 2030-01-31T12:00:00Z", parseDate)
	return withDecisionJSON(cmd)
}

// withDecisionJSON adds --json to a verb that prints a decision.
func withDecisionJSON(cmd *cobra.Command) *cobra.Command {
	return withJSON(cmd, `"module", "action", "versions", "reason", "until", "by", "time", "known", "remarks", …`, "")
}

// addForce adds the flag for decisions about modules that are not known to exist.
func addForce(cmd *cobra.Command, in *admin.DecisionRequest) {
	cmd.Flags().BoolVar(&in.Force, "force", false, "decide even if neither the ledger, the store nor a registry has the version")
}

// parseDate reads a time, or a day, which means its beginning in UTC.
func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("want a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z, not %.80q", s)
}

func newRejectCommand(env *environment) *cobra.Command {
	in := admin.DecisionRequest{Action: modproxy.Reject}
	cmd := env.withServer(&cobra.Command{
		Use:   "reject MODULE VERSION|CONSTRAINT",
		Short: "Reject versions until they are approved",
		Long: `Reject a version that waits for approval or was approved, or all versions that a
constraint selects. Users see the text of --reason.

The last decision is in force: "modproxy approve" ends a rejection. To deny
versions even if they are approved, use "modproxy block".

` + addressUsage,
		Example: `  modproxy reject acme/vpc/aws 1.2.0 --reason 'opens port 22: use 1.3.0'`,
		Args:    arguments(2, 2),
		RunE:    func(cmd *cobra.Command, args []string) error { return env.decide(cmd, in, args) },
	})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "one line of `text` for users: the reason, and what to use instead")
	addForce(cmd, &in)
	return withDecisionJSON(cmd)
}

func newBlockCommand(env *environment) *cobra.Command {
	in := admin.DecisionRequest{Action: modproxy.Block}
	cmd := env.withServer(&cobra.Command{
		Use:   "block MODULE [VERSION|CONSTRAINT] --reason TEXT",
		Short: "Block versions of a module, even if rules allow them",
		Long: `Block a version of a module, all versions that a constraint such as '< 1.4.0'
selects, or all versions. The block is in force at once: modproxy cuts off
packages that it is sending, and package paths that were signed before are
invalid. Cached packages stay, as evidence.

Users see TEXT. "modproxy unblock" ends a block.

` + addressUsage,
		Example: `  modproxy block acme/vpc/aws '< 1.4.0' --reason 'CVE: use 1.4.0'
  modproxy block '*/acme/vpc/aws' --reason 'taken over'`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Reason == "" {
				return misuse{errors.New("--reason is needed: users are told why")}
			}
			return env.decide(cmd, in, args)
		},
	})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "one line of `text` for users: the reason, and what to use instead")
	addForce(cmd, &in)
	return withDecisionJSON(cmd)
}

func newUnblockCommand(env *environment) *cobra.Command {
	in := admin.DecisionRequest{Action: modproxy.Unblock}
	cmd := env.withServer(&cobra.Command{
		Use:   "unblock MODULE [VERSION|CONSTRAINT]",
		Short: "End a block",
		Long: `End the block of a version, of a constraint, or of all versions of a module. The
arguments are those of "modproxy block". "modproxy decisions" lists the blocks
in force.

` + addressUsage,
		Example: `  modproxy unblock acme/vpc/aws '< 1.4.0' --reason 'false alarm'`,
		Args:    arguments(1, 2),
		RunE:    func(cmd *cobra.Command, args []string) error { return env.decide(cmd, in, args) },
	})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "one line of `text`: the reason")
	return withDecisionJSON(cmd)
}

func newDeprecateCommand(env *environment) *cobra.Command {
	in, lift := admin.DecisionRequest{Action: modproxy.Deprecate}, false
	cmd := env.withServer(&cobra.Command{
		Use:   "deprecate MODULE [VERSION|CONSTRAINT] --message TEXT | --lift",
		Short: "Mark versions that should no longer be used",
		Long: `Mark a version, all versions that a constraint selects, or all versions of a
module as deprecated. They are still listed and served: "modproxy lock --check"
and "modproxy ls" print TEXT. --lift ends the deprecation of the same versions.

` + addressUsage,
		Example: `  modproxy deprecate acme/vpc/aws '< 2.0.0' --message 'use 2.x'
  modproxy deprecate acme/vpc/aws '< 2.0.0' --lift`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lift != (in.Reason == "") || lift && in.Link != "" {
				return misuse{errors.New("want --message with what users should do, or --lift alone")}
			}
			return env.decide(cmd, in, args)
		},
	})
	cmd.Flags().StringVar(&in.Reason, "message", "", "one line of `text` for users: the reason, and what to use instead")
	cmd.Flags().StringVar(&in.Link, "link", "", "https `URL` with more information")
	addForce(cmd, &in)
	cmd.Flags().BoolVar(&lift, "lift", false, "end the deprecation of the same versions")
	return withDecisionJSON(cmd)
}

// decide makes a decision about the versions in args.
func (env *environment) decide(cmd *cobra.Command, in admin.DecisionRequest, args []string) error {
	m, err := env.address(args[0])
	if err != nil {
		return err
	}
	in.Module = m.String()
	if len(args) > 1 {
		if _, err := modproxy.ParseConstraint(args[1]); err != nil {
			return misuse{err}
		}
		in.Versions = args[1]
	}
	if u, err := user.Current(); err == nil {
		in.User = u.Username
	}
	out, err := ask(cmd.Context(), env, admin.DecisionsMake, in, nil)
	if err != nil {
		return err
	}
	for _, remark := range out.Remarks {
		fmt.Fprintf(env.stderr, "modproxy: %s\n", printable(remark))
	}
	return env.print(out, decidedText(out))
}

// decidedText describes a decision in one line.
func decidedText(d admin.DecisionResult) string {
	state := map[modproxy.Action]string{
		modproxy.Approve: "approved", modproxy.Reject: "rejected", modproxy.Block: "blocked", modproxy.Unblock: "no longer blocked",
		modproxy.Deprecate: "deprecated",
	}[d.Action]
	if d.Action == modproxy.Deprecate && d.Reason == "" {
		state = "no longer deprecated"
	}
	if !d.Until.IsZero() {
		state += " until " + d.Until.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("%s is %s", admin.VersionsText(d.Name.Module, d.Versions), state)
	if d.Known {
		text += fmt.Sprintf(" already, since %s, by %s", d.Time.UTC().Format(time.RFC3339), d.By)
	}
	return text + ".\n"
}

func newDecisionsCommand(env *environment) *cobra.Command {
	var all bool
	cmd := env.withServer(&cobra.Command{
		Use:   "decisions [MODULE]",
		Short: "List the decisions of operators about versions",
		Long: `List the decisions that are in force, in the order in which they were made.
--all also lists decisions that ended or were replaced, and decisions that ended
others. Decisions are in the ledger: they are signed and permanent.

The list marks approvals that end within 14 days.

` + addressUsage,
		Example: `  modproxy decisions
  modproxy decisions acme/vpc/aws --all --json`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var about versionname.Name
			if len(args) > 0 {
				m, err := env.address(args[0])
				if err != nil {
					return err
				}
				about.Module = m.String()
			}
			return env.listDecisions(cmd.Context(), about, all)
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "also list decisions that have ended")
	return withJSON(cmd, `"module", "action", "versions", "in_force", …`, "")
}

// listDecisions prints the decisions about a module, or about all modules: those in force, or with all also the ended ones.
func (env *environment) listDecisions(ctx context.Context, about versionname.Name, all bool) error {
	var list []admin.Decision
	_, err := ask(ctx, env, admin.DecisionsList, about, func(d admin.Decision) error {
		switch {
		case !all && !d.InForce:
		case env.json():
			return env.item(d, "")
		default:
			list = append(list, d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(list) == 0 && !env.json() {
		fmt.Fprintln(env.stderr, "modproxy: no decision is in force"+map[bool]string{true: ", and none was before"}[all])
	}
	return env.end(nil, decisionsText(list))
}

// decisionsText formats decisions as a table.
func decisionsText(list []admin.Decision) string {
	if len(list) == 0 {
		return ""
	}
	out, table := newTable()
	fmt.Fprintln(out, "DECISION\tMODULE\tVERSIONS\tMADE\tUNTIL\tBY\tREASON")
	for _, d := range list {
		action, until := string(d.Action), "-"
		if !d.InForce {
			action += " (past)"
		}
		if !d.Until.IsZero() {
			until = d.Until.UTC().Format(time.DateOnly)
		}
		if d.EndsSoon {
			until += " (soon)"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", action, d.Name.Module, cmp.Or(d.Versions, "all"),
			d.Time.UTC().Format(time.DateOnly), until, printable(d.By), printable(cmp.Or(d.Reason, "-")))
	}
	return table()
}
