package house

import (
	"go/ast"
	"go/doc"
	"strings"
)

// Examples checks that every constructor of a public package, a function whose
// name begins with New or Open, is called in an Example of its package whose
// output is checked.
func Examples(t *Tree) []string {
	called := map[string]bool{} // "dir.Func"
	for dir, files := range t.tests() {
		for _, ex := range doc.Examples(files...) {
			if ex.Output == "" && !ex.EmptyOutput {
				continue
			}
			ast.Inspect(ex.Code, func(x ast.Node) bool {
				switch x := x.(type) {
				case *ast.SelectorExpr:
					called[dir+"."+x.Sel.Name] = true
				case *ast.Ident:
					called[dir+"."+x.Name] = true
				}
				return true
			})
		}
	}
	var list []string
	for _, f := range t.goes {
		if f.test || f.nested || f.Name.Name == "main" || !isPublic(f.dir) {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !isConstructor(fn.Name.Name) || called[f.dir+"."+fn.Name.Name] {
				continue
			}
			list = append(list, t.at(fn.Pos(), "%s.%s is in no Example with checked output; add Example%s to %s/example_test.go",
				f.Name, fn.Name, fn.Name, f.dir))
		}
	}
	return list
}

// tests are the test files by folder.
func (t *Tree) tests() map[string][]*ast.File {
	m := map[string][]*ast.File{}
	for _, f := range t.goes {
		if f.test && isPublic(f.dir) {
			m[f.dir] = append(m[f.dir], f.File)
		}
	}
	return m
}

// isConstructor reports whether name is New, Open or one of these followed by
// another word: NewGroup, but not Newest.
func isConstructor(name string) bool {
	for _, prefix := range []string{"New", "Open"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || strings.ToLower(rest[:1]) != rest[:1]) {
			return true
		}
	}
	return false
}
