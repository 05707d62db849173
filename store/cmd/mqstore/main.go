// Command mqstore looks at, checks and tends message stores of mqstore and of Apache RocketMQ, and serves one.
//
// Each verb is one file, cmd_<verb>.go: a struct whose fields are its flags and arguments, and a Run method. This file
// only parses, runs and turns errors into exit codes: 0 all good; 1 the store has findings, or nothing was found;
// 2 could not do it (usage, I/O, locked by a running process).
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/mqstore/mqstore/store/internal/repair"
)

// Exit codes: others' scripts rely on them.
const (
	exitOK       = 0
	exitFindings = 1
	exitFailed   = 2
)

type cli struct {
	Info        infoCmd        `cmd:"" help:"What is here: files, offsets, queues, exit state, checkpoint, index."`
	Queues      queuesCmd      `cmd:"" help:"One row for each queue."`
	Units       unitsCmd       `cmd:"" help:"The units of one queue."`
	Dump        dumpCmd        `cmd:"" help:"The records of the log, in physical order."`
	Get         getCmd         `cmd:"" help:"What a consumer would be given."`
	Lookup      lookupCmd      `cmd:"" help:"One record, by physical offset or message id."`
	Query       queryCmd       `cmd:"" help:"Messages by key or unique id."`
	Time        timeCmd        `cmd:"" help:"The queue offset for a store time."`
	Verify      verifyCmd      `cmd:"" help:"Everything that is wrong: records, units, checkpoint, index, each finding with the verb that mends it."`
	Diff        diffCmd        `cmd:"" help:"The first difference between two stores, and by range: a master and its slave."`
	IndexExport indexExportCmd `cmd:"" help:"RocketMQ's index files anew from the log."`
	IndexImport indexImportCmd `cmd:"" help:"Our index from RocketMQ's index files, each hit verified."`
	Export      exportCmd      `cmd:"" help:"Records as an archive: JSON Lines compressed with zstd, bodies byte for byte."`
	Import      importCmd      `cmd:"" help:"A new store of such an archive."`
	Recover     recoverCmd     `cmd:"" help:"What opening the store would do after a crash, offline: cuts the torn tail, completes queues and index."`
	Salvage     salvageCmd     `cmd:"" help:"Damage in the middle: copies every record that verifies into a new store."`
	Rebuild     rebuildCmd     `cmd:"" help:"Queues or index anew from the log."`
	Truncate    truncateCmd    `cmd:"" help:"Cuts the log and everything above at a record boundary."`
	Serve       serveCmd       `cmd:"" help:"Runs a node from a broker's .properties file: the store, replication, health and stats."`
	Bench       benchCmd       `cmd:"" help:"What this machine and disk give: put, get, query and recovery rates beside the limits of memory and disk."`
	Demo        demoCmd        `cmd:"" help:"Puts, gets, crashes and recoveries in a temporary directory, alone and as a pair, with proof."`

	DemoWriter demoWriterCmd `cmd:"" hidden:"" help:"The process that demo kills."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole command but for the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var (
		c      cli
		helped bool
	)
	out := bufio.NewWriterSize(stdout, 64<<10)
	k, err := kong.New(&c,
		kong.Name("mqstore"),
		kong.Description("Looks at, checks and mends message stores of mqstore and of Apache RocketMQ (4.x and 5.x), and serves one. Verbs that only look never write a byte to the store and need no lock, so a live store can be looked at too."),
		kong.Writers(out, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 120}),
		kong.ShortUsageOnError(),
	)
	if err != nil {
		panic(err) // our own flags do not fit together
	}
	if len(args) == 0 {
		args = []string{"--help"}
		defer func() { fmt.Fprintln(stderr, "mqstore: a verb is needed") }()
		out = bufio.NewWriter(stderr)
		k.Stdout = out
		_, _ = k.Parse(args)
		out.Flush()
		return exitFailed
	}
	if args[0] == "--version" || args[0] == "version" && len(args) == 1 {
		fmt.Fprintln(stdout, version())
		return exitOK
	}
	if args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	kctx, err := k.Parse(agoArgs(args))
	if helped {
		if err := out.Flush(); err != nil {
			return exitFailed
		}
		return exitOK
	}
	if err != nil {
		verb := where(err)
		fmt.Fprintf(stderr, "%s: %s (see %[1]s --help)\n", verb, mistake(err, args, verb))
		return exitFailed
	}
	verb := kctx.Selected().Name
	boundMemory(verb)
	e := &env{ctx: ctx, out: out, stdout: stdout, stderr: stderr}
	err = kctx.Run(e)
	if ferr := e.flush(); err == nil && ferr != nil {
		err = fmt.Errorf("write the output: %w", ferr)
	}
	verb = "mqstore " + verb
	var silent quietError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", verb)
		return exitFailed
	case errors.As(err, &silent):
		return silent.code
	}
	fmt.Fprintf(stderr, "%s: %s\n", verb, oneLine(err))
	var found *foundError
	if errors.As(err, &found) {
		return exitFindings
	}
	return exitFailed
}

// boundMemory has a verb that works on a store of any size collect its garbage before the process reaches 200 MiB. Whoever says GOMEMLIMIT knows better.
func boundMemory(verb string) {
	if serves := verb == "serve" || verb == "bench" || strings.HasPrefix(verb, "demo"); !serves && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(repair.MemoryLimit)
	}
}

// printHelp is kong's, and the examples of a verb behind it.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	if n := ctx.Selected(); n != nil {
		if x, ok := n.Target.Addr().Interface().(interface{ Examples() string }); ok {
			_, err := fmt.Fprintf(ctx.Stdout, "\nExamples:\n%s\n", x.Examples())
			return err
		}
		return nil
	}
	_, err := fmt.Fprint(ctx.Stdout, "\nmqstore --version names the build.\nExit codes: 0 all good; 1 the store has findings, two stores differ, or nothing was found; 2 could not do it.\n")
	return err
}

// ago matches a duration ago given as an argument of its own, which would else be read as flags: -2h, -1h30m, -3d.
var ago = regexp.MustCompile(`^-[0-9][0-9.]*[a-zµ][0-9.a-zµ]*$`)

// negative matches a number that would be read as flags, too.
var negative = regexp.MustCompile(`^-[0-9]+$`)

func agoArgs(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
		if ago.MatchString(a) {
			a = "now" + a
		}
		out[i] = a
	}
	return out
}

// flagValue matches what kong says of a flag whose value looks like a flag.
var flagValue = regexp.MustCompile(`^(--[a-z-]+): expected .* but got "(-[^"]+)" \(`)

// noValue matches what kong says of a flag that stands last and lacks its value.
var noValue = regexp.MustCompile(`^(--[a-z-]+): expected .* but got "EOL" \(<EOL>\)$`)

// mistake says in one line what is wrong with args.
func mistake(err error, args []string, verb string) string {
	text := strings.TrimPrefix(oneLine(err), strings.TrimPrefix(verb, "mqstore ")+": ") // kong names the verb where the verb itself found the mistake
	if m := flagValue.FindStringSubmatch(text); m != nil {
		if negative.MatchString(m[2]) {
			return fmt.Sprintf("%s: %s is negative: offsets and numbers begin at 0", m[1], m[2])
		}
		return fmt.Sprintf("%s: it needs a value, %s is none", m[1], m[2])
	}
	if m := noValue.FindStringSubmatch(text); m != nil {
		return m[1] + ": it needs a value"
	}
	if verb == "mqstore" && strings.HasPrefix(args[0], "-") && strings.HasPrefix(text, "unknown flag") {
		return text + ": the verb comes first, its flags behind it"
	}
	if i := slices.IndexFunc(args, negative.MatchString); i >= 0 && strings.HasPrefix(text, "unknown flag") {
		return args[i] + " is negative: offsets and numbers begin at 0"
	}
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok && verb == "mqstore" {
		text = "there is no verb " + word
	}
	return text
}

// where names the verb that a usage error belongs to.
func where(err error) string {
	var p *kong.ParseError
	if errors.As(err, &p) && p.Context != nil {
		if n := p.Context.Selected(); n != nil {
			return "mqstore " + n.Name
		}
	}
	return "mqstore"
}

func oneLine(err error) string { return strings.Join(strings.Fields(printable(err.Error())), " ") }

// foundError ends a verb with exit code 1: nothing was found, or the store has findings.
type foundError struct{ err error }

func (e *foundError) Error() string { return e.err.Error() }
func (e *foundError) Unwrap() error { return e.err }

// nothing is the error of a verb that found nothing, or found something wrong, and says what.
func nothing(format string, args ...any) error {
	return &foundError{fmt.Errorf(format, args...)}
}

// usage is an error of how the command was called.
func usage(format string, args ...any) error { return fmt.Errorf(format, args...) }

// quietError ends a verb that has said everything already.
type quietError struct{ code int }

func (e quietError) Error() string { return fmt.Sprintf("exit %d", e.code) }
