package house_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/house"
)

// TestHouse holds the repository to its rules.
func TestHouse(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := house.Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]func(*house.Tree) []string{
		"parsed":           (*house.Tree).Parsed,
		"imports":          house.Imports,
		"layout":           house.Layout,
		"requirements":     house.Requirements,
		"package comments": house.PackageComments,
		"doc comments":     house.DocComments,
		"unfinished":       house.Unfinished,
		"places":           func(tree *house.Tree) []string { return house.Places(tree, root) },
		"links":            house.Links,
		"page code":        house.PageCode,
		"examples":         house.Examples,
		"clock":            func(tree *house.Tree) []string { return house.Clock(tree, house.RealTime) },
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, offence := range rule(tree) {
				t.Error(offence)
			}
		})
	}
}

func TestGateIsExecutable(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(filepath.Join("..", "..", ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
		t.Errorf(".ci/run has mode %v and cannot be run", info.Mode())
	}
}

const goodMod = "module github.com/nightfuse/nightfuse\n\ngo 1.26.0\n\nrequire (\n" +
	"\tgithub.com/benbjohnson/clock v1.3.5\n\tgithub.com/google/go-cmp v0.7.0\n\tgolang.org/x/time v0.16.0\n)\n"

// TestRules shows each rule a small tree and compares the offences that it
// finds, each cut down to its place: a rule that finds nothing, or too much,
// would make TestHouse worthless.
func TestRules(t *testing.T) {
	t.Parallel()
	clock := func(allowed map[string]house.Use) func(*house.Tree) []string {
		return func(tree *house.Tree) []string { return house.Clock(tree, allowed) }
	}
	places := func(tree *house.Tree) []string { return house.Places(tree, "/somewhere/checkout") }
	tests := []struct {
		name  string
		rule  func(*house.Tree) []string
		files map[string]string
		want  []string
	}{
		{"a file that does not parse", (*house.Tree).Parsed, map[string]string{
			"retry/a.go": "package retry\nfunc {",
			"retry/b.go": "package retry",
		}, []string{"retry/a.go:2"}},

		{"imports that may be", house.Imports, map[string]string{
			"retry/a.go":                `package retry; import ("net/http"; "` + house.Module + `/internal/call")`,
			"budget/a.go":               `package budget; import "golang.org/x/time/rate"`,
			"budget/sqlstore/a.go":      `package sqlstore; import "` + house.Module + `/budget"`,
			"breaker/a.go":              `package breaker; import "` + house.Module + `/signature"`,
			"breaker/breakertest/a.go":  `package breakertest; import ("github.com/google/go-cmp/cmp"; "testing")`,
			"breaker/a_test.go":         `package breaker; import ("github.com/benbjohnson/clock"; "github.com/google/go-cmp/cmp")`,
			"examples/nightly/main.go":  `package main; import ("` + house.Module + `/retry"; "` + house.Module + `/internal/fakemodel")`,
			"deadletter/cmd/dl/main.go": `package main; import "` + house.Module + `/budget"`,
			"examples/providers/go.mod": "module x",
			"examples/providers/a.go":   `package main; import "example.org/sdk"`,
		}, nil},
		{"imports that may not be", house.Imports, map[string]string{
			"retry/a.go":         `package retry; import "` + house.Module + `/signature"`,
			"retry/b_test.go":    `package retry_test; import "` + house.Module + `/breaker"`,
			"budget/a.go":        `package budget; import "` + house.Module + `/retry"`,
			"breaker/a.go":       `package breaker; import "` + house.Module + `/budget/sqlstore"`,
			"breaker/b.go":       `package breaker; import "golang.org/x/time/rate"`,
			"breaker/c.go":       `package breaker; import "C"`,
			"internal/call/a.go": `package call; import "` + house.Module + `/retry"`,
			"signature/a.go":     `package signature; import "github.com/google/go-cmp/cmp"`,
			"deadletter/a.go":    `package deadletter; import "github.com/google/go-cmpx"`,
			"deadletter/b.go":    `package deadletter; import "` + house.Module + `/budget"`,
		}, []string{
			"breaker/a.go:1", "breaker/b.go:1", "breaker/c.go:1", "budget/a.go:1", "deadletter/a.go:1", "deadletter/b.go:1",
			"internal/call/a.go:1", "retry/a.go:1", "retry/b_test.go:1", "signature/a.go:1",
		}},

		{"a root as it should be", house.Layout, map[string]string{
			".gitignore": "*.test\n/night/\n", ".ci/run": "", "go.mod": "", "go.sum": "", "LICENSE": "", "README.md": "",
			"night/results/1.json": "", "retry.test": "", "breaker/a.go": "package breaker",
		}, nil},
		{"a root with more", house.Layout, map[string]string{
			"doc.go": "package nightfuse", "util/a.go": "package util", "util/b.go": "package util", "NOTES.md": "",
		}, []string{"NOTES.md", "doc.go", "util"}},

		{"the requirements", house.Requirements, map[string]string{"go.mod": goodMod}, nil},
		{"a requirement more, one less, and a replacement", house.Requirements, map[string]string{
			"go.mod": strings.Replace(goodMod, "google/go-cmp", "stretchr/testify", 1) + "replace a => b\n",
		}, []string{"go.mod:7", "go.mod:10", "go.mod"}},
		{"an indirect requirement on one line", house.Requirements, map[string]string{
			"go.mod": goodMod + "require example.org/x v1.0.0 // indirect\n",
		}, []string{"go.mod:10"}},
		{"another module", house.Requirements, map[string]string{
			"go.mod": strings.Replace(goodMod, "nightfuse\n", "other\n", 1),
		}, []string{"go.mod:1"}},
		{"no go.mod", house.Requirements, nil, []string{"go.mod"}},

		{"package comments", house.PackageComments, map[string]string{
			"a/a.go": "// Package a is.\npackage a", "a/b.go": "package a", "a/a_test.go": "// Package a_test is.\npackage a_test",
			"b/a.go": "// Package b is.\npackage b", "b/b.go": "// Package b is too.\npackage b",
			"c/a.go": "package c", "c/b.go": "package c",
			"d/testdata/a.go": "package d",
			"e/a.go":          "//go:build linux\n\npackage e",
		}, []string{"b/b.go:1", "c/a.go:1", "e/a.go:3"}},

		{"doc comments", house.DocComments, map[string]string{
			"a/a.go": `package a
// Good is.
type Good struct{}
type Bad struct{}
// M does.
func (Good) M() {}
func (*Good) N() {}
func (g *Gen[T]) O() {}
func (g hidden) P() {}
func (Good) Error() string { return "" }
func F() {}
//go:noinline
func G() {}
// Sizes.
const (
	A = 1
	B = 2
)
const (
	C = 1 // as a comment
	D = 2
)
var E, f int
// Types.
type (
	// H is.
	H int
	I int
)
// Gen is.
type Gen[T any] struct{}
type hidden int
`,
			"a/a_test.go": "package a\nfunc F() {}",
			"m/main.go":   "package main\nfunc F() {}",
		}, []string{"a/a.go:4", "a/a.go:7", "a/a.go:8", "a/a.go:11", "a/a.go:13", "a/a.go:21", "a/a.go:23", "a/a.go:28"}},

		{"unfinished work", house.Unfinished, map[string]string{
			"a/a.go":          "package a\n// TO" + "DO: more\nvar s = \"TO" + "DO\"\n/* FIX" + "ME */",
			"README.md":       "fine\nXX" + "X here\nXXX" + "X and A_TO" + "DO are other words",
			"a/testdata/x.md": "TO" + "DO",
		}, []string{"a/a.go:2", "a/a.go:4", "README.md:2"}},

		{"places", places, map[string]string{
			"a/a.go":    "package a\n// see /home/" + "me/x\n// and /somewhere/checkout/y\n// not a/home/x, /tmp/x or https://x.org/PLAN.md",
			"README.md": "as PLAN" + ".md says\nor notes/b" + ".md\nRFC 9110 \u00a710\nPLAN \u00a7" + "3\nsee README.md",
		}, []string{"README.md:1", "README.md:2", "README.md:4", "a/a.go:2", "a/a.go:3"}},

		{"page code", house.PageCode, map[string]string{
			"README.md":       "```go\nx := 1\ny()\n```\ntext\n```\nz()\n```\n```go\nx := 2\n```\n",
			"examples/a/a.go": "package a\nfunc f() {\n\tx := 1\n\ty()\n}",
			"breaker/a.go":    "package breaker\nfunc f() {\n\tx := 2\n}",
		}, []string{"README.md:9"}},

		{"links", house.Links, map[string]string{
			"README.md": "# A *good* Heading!\n[1](breaker) [2](breaker/doc.go \"title\") [3](#a-good-heading) [4](https://x.org/y) [5](mailto:x)\n" +
				"[6](missing.md)\n[7](#nowhere)\n[8](a/B.md#two)\n[9](a/B.md#three)\n```\n[10](gone)\n```\n![11](gone.png)\n",
			"a/B.md":         "## Two\n[1](../README.md) [2](B.md)\n[3](README.md)\n",
			"breaker/doc.go": "package breaker",
		}, []string{"README.md:3", "README.md:4", "README.md:6", "README.md:10", "a/B.md:3"}},

		{"examples", house.Examples, map[string]string{
			"retry/a.go": "package retry\nfunc New() {}\nfunc NewTransport() {}\nfunc OpenFile() {}\nfunc Open() {}\nfunc Newest() {}\nfunc newT() {}\nfunc (t T) NewX() {}",
			"retry/example_test.go": `package retry_test
func ExampleNew() { retry.New()
	// Output:
	// x
}
func Example_file() { _, err := retry.OpenFile(); print(err)
	// Output:
}
func ExampleNewTransport() { retry.NewTransport() }
`,
			"retry/internal/x/a.go": "package x\nfunc New() {}",
			"internal/x/a.go":       "package x\nfunc New() {}",
			"budget/sub/a.go":       "package sub\nfunc NewFile() {}",
			"breaker/cmd/a.go":      "package main\nfunc New() {}",
		}, []string{"budget/sub/a.go:2", "retry/a.go:3", "retry/a.go:5"}},

		{"the clock", clock(map[string]house.Use{
			"retry/clock.go":    {Names: "Now After", Why: "nil"},
			"retry/gone.go":     {Names: "Sleep", Why: "gone"},
			"internal/x/old.go": {Names: "Now Since", Why: "half gone"},
		}), map[string]string{
			"retry/clock.go":    "package retry\nimport \"time\"\nvar a, b = time.Now(), time.After(1)\nvar c = time.Since(a)",
			"retry/a.go":        "package retry\nimport t \"time\"\nvar now = t.Now\nvar d = t.Second\nvar x = time.Now()\nvar timer = t.NewTimer(1)",
			"retry/b.go":        "package retry\nimport . \"time\"\n",
			"internal/x/old.go": "package x\nimport \"time\"\nvar a = time.Now()",
			"retry/a_test.go":   "package retry\nimport \"time\"\nvar a = time.Now()\nfunc f() { time.Sleep(1) }\n// g is for a bubble.\nfunc g() { time.Sleep(1) }\nfunc h() { time.Sleep(1) }",
			"retry/b_test.go":   "package retry\nimport (\"time\"; \"testing/synctest\")\nfunc f() { time.Sleep(1); synctest.Wait() }",
			"x/go.mod":          "module x",
			"x/a.go":            "package x\nimport \"time\"\nvar a = time.Now()",
		}, []string{"internal/x/old.go", "retry/a.go:3", "retry/a_test.go:4", "retry/a_test.go:7", "retry/b.go:1", "retry/clock.go:4", "retry/gone.go"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for name, text := range tt.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := house.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, offence := range tt.rule(tree) {
				got = append(got, place(offence))
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("offences (-got +want):\n%s\n%s", diff, strings.Join(tt.rule(tree), "\n"))
			}
		})
	}
}

// place is an offence's file and line: its text before the message.
func place(offence string) string {
	file, rest, _ := strings.Cut(offence, ":")
	line, _, _ := strings.Cut(rest, ":")
	if line != "" && strings.Trim(line, "0123456789") == "" {
		return file + ":" + line
	}
	return file
}
