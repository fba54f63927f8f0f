package house

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// atRoot are the names that may stand in the root, beside hidden ones.
var atRoot = []string{
	"breaker", "budget", "retry", "signature", "deadletter", "examples", "internal",
	"go.mod", "go.sum", "LICENSE", "README.md",
}

// Layout checks that the root has no Go package and nothing unexpected.
func Layout(t *Tree) []string {
	var list []string
	seen := map[string]bool{}
	for _, p := range t.files {
		name := top(p)
		if seen[name] || strings.HasPrefix(name, ".") || slices.Contains(atRoot, name) {
			continue
		}
		seen[name] = true
		switch {
		case strings.HasSuffix(name, ".go"):
			list = append(list, name+": the root has no Go package; put the file into one of "+strings.Join(atRoot[:7], ", "))
		default:
			list = append(list, name+": not a name for the root; put it below one of "+strings.Join(atRoot[:7], ", "))
		}
	}
	return list
}

// requires are the requirements of the root module.
var requires = []string{clockModule, cmpModule, timeModule}

// Requirements checks that the root go.mod requires exactly the three modules
// that an importer gets, and directs nothing else.
func Requirements(t *Tree) []string {
	b, err := fs.ReadFile(t.root, "go.mod")
	if err != nil {
		return []string{"go.mod: " + err.Error()}
	}
	var list, got []string
	block := ""
	for n, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case block != "":
			words = append([]string{block}, words...)
		case len(words) > 1 && words[1] == "(":
			block = words[0]
			continue
		}
		switch {
		case len(words) < 2:
			list = append(list, fmt.Sprintf("go.mod:%d: %q is not understood", n+1, words[0]))
		case words[0] == "require":
			got = append(got, words[1])
			if !slices.Contains(requires, words[1]) {
				list = append(list, fmt.Sprintf("go.mod:%d: requires %s: an importer gets exactly %s; use a nested module", n+1, words[1], strings.Join(requires, ", ")))
			}
		case words[0] == "module" && words[1] != Module:
			list = append(list, fmt.Sprintf("go.mod:%d: the module is %s, want %s", n+1, words[1], Module))
		case words[0] != "module" && words[0] != "go":
			list = append(list, fmt.Sprintf("go.mod:%d: %s does not belong in the go.mod of a library", n+1, words[0]))
		}
	}
	for _, r := range requires {
		if !slices.Contains(got, r) {
			list = append(list, "go.mod: does not require "+r)
		}
	}
	return list
}
