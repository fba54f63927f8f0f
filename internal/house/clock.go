package house

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// RealTime is where the real clock may be asked, each file with what it uses
// and why. Everything else takes a Clock, or the time as an argument.
var RealTime = map[string]Use{
	"breaker/clock.go":            {"Now After", "the Clock that nil stands for"},
	"budget/clock.go":             {"Now After", "the Clock that nil stands for"},
	"retry/clock.go":              {"Now After Since", "the Clock that nil stands for, and durations by the monotonic clock"},
	"deadletter/clock.go":         {"Now After", "the Clock that nil stands for"},
	"deadletter/fixture/clock.go": {"Now After", "the Clock that nil stands for"},
	"deadletter/batch/clock.go":   {"Now After", "the Clock that nil stands for"},
	"internal/fakemodel/clock.go": {"Now After", "the Clock that nil stands for"},

	"breaker/phase.go":    {"Until", "a refusal reads only the monotonic clock when the Clock is the real one"},
	"breaker/exchange.go": {"Until", "the deadline of a context made there, which is in real time"},

	"internal/durable/rename.go":           {"Sleep", "waits for another process to close a file, which no fake clock moves"},
	"internal/durable/lock.go":             {"Now", "when a lock was taken, told to whoever is refused"},
	"internal/durable/slots.go":            {"Sleep", "waits microseconds for another process's write"},
	"internal/durable/replace.go":          {"Since", "the age of a file by the file system's clock"},
	"internal/durable/durabletest/disk.go": {"Now", "is the file system whose files have that age"},

	"examples/nightly/clock.go":            {"Now After", "a program, whose clock is the wall's"},
	"signature/internal/measure/speed.go":  {"Now Since", "a program that measures how long signing takes"},
	"deadletter/cmd/deadletter/options.go": {"Now", "a program, whose clock is the wall's"},
	"deadletter/inspect/inspect.go":        {"Now", "the Clock that nil stands for"},
	"deadletter/sqlstore/sqlstore.go":      {"Now", "the Clock that nil stands for"},
}

// Use is what a file uses of package time, and why it may.
type Use struct {
	Names string // separated by spaces
	Why   string
}

// asksClock are the functions of package time that ask or wait for the real
// clock. Timers for a limit of running time (NewTimer, AfterFunc) are free.
var asksClock = []string{"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTicker"}

// Clock checks that the real clock is asked only where allowed says so, and
// that allowed holds nothing that is not used any more. Nested modules are free,
// and so are tests, except that they never sleep in real time: a file with a
// time.Sleep runs synctest bubbles itself, or the comment of the function that
// sleeps says that it is to be called in a bubble.
func Clock(t *Tree, allowed map[string]Use) []string {
	var list []string
	unused := map[string][]string{}
	for file, use := range allowed {
		unused[file] = strings.Fields(use.Names)
	}
	for _, f := range t.goes {
		name := f.importName("time")
		if name == "" || f.nested {
			continue
		}
		if name == "." {
			list = append(list, t.at(f.Package, "imports time as a dot: then nobody sees who asks the clock"))
			continue
		}
		may := strings.Fields(allowed[f.path].Names)
		bubbles := f.importName("testing/synctest") != ""
		inBubble := false // by the comment of the function around
		ast.Inspect(f.File, func(x ast.Node) bool {
			if fn, ok := x.(*ast.FuncDecl); ok {
				inBubble = strings.Contains(fn.Doc.Text(), "bubble")
			}
			used, pos := isTime(name, x)
			switch {
			case !slices.Contains(asksClock, used):
			case f.test && used == "Sleep" && !bubbles && !inBubble:
				list = append(list, t.at(pos, "time.Sleep in a test: wait for an event, advance a mock clock, or run in a synctest bubble and say so in the function's comment"))
			case f.test:
			case slices.Contains(may, used):
				unused[f.path] = slices.DeleteFunc(unused[f.path], func(n string) bool { return n == used })
			default:
				list = append(list, t.at(pos, "time.%s: take the time as an argument or ask the Clock of the Config; a file that owns real time is listed, with its reason, in internal/house/clock.go", used))
			}
			return true
		})
	}
	for _, file := range slices.Sorted(maps.Keys(unused)) {
		if names := unused[file]; len(names) > 0 {
			list = append(list, file+": does not use time."+strings.Join(names, ", time.")+" any more; take it off the list in internal/house/clock.go")
		}
	}
	return list
}

// isTime reports the name of the function of package time that x is, or "".
func isTime(timeName string, x ast.Node) (string, token.Pos) {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return "", token.NoPos
	}
	if id, ok := sel.X.(*ast.Ident); ok && id.Name == timeName {
		return sel.Sel.Name, sel.Pos()
	}
	return "", token.NoPos
}
