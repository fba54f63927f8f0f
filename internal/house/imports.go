package house

import (
	"slices"
	"strings"
)

// The modules that the root module may use, and where.
const (
	clockModule = "github.com/benbjohnson/clock"
	cmpModule   = "github.com/google/go-cmp"
	timeModule  = "golang.org/x/time"
)

// mayImport says what a package may import beside the standard library,
// internal packages and its own folder.
var mayImport = map[string][]string{
	"signature":  nil,
	"retry":      nil,
	"budget":     {timeModule},
	"breaker":    {"signature"},
	"deadletter": {"signature"},
	"internal":   nil,
	"examples":   {"breaker", "budget", "retry", "signature", "deadletter", timeModule},
}

// inTests are the modules that every test of the root module may import, and
// every package for tests, whose folder's name ends in test.
var inTests = []string{clockModule, cmpModule}

// Imports checks who imports whom. The siblings breaker, budget and retry do
// not know each other, in their tests neither: they meet through the behaviours
// of their errors and through http.RoundTripper. Nested modules are free.
func Imports(t *Tree) []string {
	var list []string
	for _, f := range t.goes {
		if f.nested {
			continue
		}
		home := top(f.dir)
		allowed, known := mayImport[home]
		if isCommand(f.dir) {
			allowed = mayImport["examples"] // it puts the parts together, and nobody imports it
		}
		if !known {
			continue // Layout names the folder
		}
		for p, spec := range f.imports {
			own, inModule := strings.CutPrefix(p, Module+"/")
			switch {
			case p == "C":
				list = append(list, t.at(spec.Pos(), "imports C: the library builds without a C compiler"))
			case !inModule && !strings.Contains(top(p), "."):
				// The standard library.
			case inModule && (top(own) == home || top(own) == "internal" || slices.Contains(allowed, top(own))):
			case inModule && home == "internal":
				list = append(list, t.at(spec.Pos(), "imports %s: internal packages import no public one; move the code, or take what you need as an argument", own))
			case inModule:
				list = append(list, t.at(spec.Pos(), "imports %s: %s may import only %s; ask the error for a behaviour or take an interface instead",
					own, home, orNothing(allowed)))
			case (f.test || strings.HasSuffix(f.dir, "test")) && slices.ContainsFunc(inTests, within(p)), slices.ContainsFunc(allowed, within(p)):
			default:
				list = append(list, t.at(spec.Pos(), "imports %s: not for %s; what needs a driver, an SDK or a peer lives in a nested module", p, home))
			}
		}
	}
	return list
}

// isCommand reports whether dir is below a folder of commands.
func isCommand(dir string) bool { return strings.Contains("/"+dir+"/", "/cmd/") }

// within tells whether a package belongs to a module.
func within(pkg string) func(module string) bool {
	return func(module string) bool { return pkg == module || strings.HasPrefix(pkg, module+"/") }
}

func orNothing(allowed []string) string {
	return strings.Join(append([]string{"the standard library, internal"}, allowed...), ", ")
}
