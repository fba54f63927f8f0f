// Package house keeps the rules of the house as tests: what each package may
// import, what the module requires, where real time may be asked for, and that
// everything exported is documented and shown in an example.
//
// Each rule is a function from a source tree to its offences, one line each,
// beginning with the file and saying what to do instead. The rules know nothing
// but the text of the files, so that they run in a second and without building.
package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/nightfuse/nightfuse"

// Tree is the source tree of the repository, with the nested modules.
type Tree struct {
	root  fs.FS
	fset  *token.FileSet
	files []string // all files but those of version control, sorted
	goes  []*goFile
	bad   []string // files that do not parse
}

// goFile is one parsed Go file.
type goFile struct {
	*ast.File
	path   string
	dir    string
	test   bool // a _test.go file
	nested bool // in a nested module
}

// Load reads a tree. It fails only when the tree cannot be read.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{root: root, fset: token.NewFileSet()}
	var modules []string
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case path.Base(p) == "go.mod" && p != "go.mod":
			modules = append(modules, path.Dir(p))
		}
		t.files = append(t.files, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	ignored := t.ignored()
	t.files = slices.DeleteFunc(t.files, func(p string) bool {
		top, _, _ := strings.Cut(p, "/")
		return matchesAny(ignored, top) || matchesAny(ignored, path.Base(p))
	})
	for _, p := range t.files {
		if path.Ext(p) != ".go" || inTestdata(p) {
			continue
		}
		src, err := fs.ReadFile(root, p)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(t.fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.bad = append(t.bad, err.Error())
			continue
		}
		t.goes = append(t.goes, &goFile{
			File: f, path: p, dir: path.Dir(p),
			test:   strings.HasSuffix(p, "_test.go"),
			nested: slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(p, m+"/") }),
		})
	}
	return t, nil
}

// ignored are the patterns of the root's .gitignore, without slashes at the
// ends: what a program or a test leaves in the checkout is not the house.
func (t *Tree) ignored() []string {
	b, err := fs.ReadFile(t.root, ".gitignore")
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if line = strings.Trim(strings.TrimSpace(line), "/"); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

func inTestdata(p string) bool { return slices.Contains(strings.Split(p, "/"), "testdata") }

// Parsed names the files that do not parse.
func (t *Tree) Parsed() []string { return t.bad }

// at is an offence at a place in a Go file.
func (t *Tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// imports gives the import paths of a file and where they stand.
func (f *goFile) imports(yield func(string, *ast.ImportSpec) bool) {
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && !yield(p, spec) {
			return
		}
	}
}

// importName is the name by which f uses the package, "" if it does not.
func (f *goFile) importName(pkg string) string {
	for p, spec := range f.imports {
		if p != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(p)
	}
	return ""
}

// top is the first element of a path in the module.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

// public are the packages a user imports, by their top-level folder.
var public = []string{"breaker", "budget", "retry", "signature", "deadletter"}

// isPublic reports whether dir holds a package for users: below one of the
// public folders, and not internal.
func isPublic(dir string) bool {
	return slices.Contains(public, top(dir)) && !slices.Contains(strings.Split(dir, "/"), "internal")
}
