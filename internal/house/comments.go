package house

import (
	"go/ast"
	"slices"
	"strings"
)

// PackageComments checks that each package, tests aside, has exactly one
// package comment.
func PackageComments(t *Tree) []string {
	commented := map[string][]*goFile{}
	first := map[string]*goFile{}
	var dirs []string
	for _, f := range t.goes {
		if f.test {
			continue
		}
		if first[f.dir] == nil {
			first[f.dir] = f
			dirs = append(dirs, f.dir)
		}
		if f.Doc.Text() != "" {
			commented[f.dir] = append(commented[f.dir], f)
		}
	}
	var list []string
	for _, dir := range dirs {
		switch c := commented[dir]; len(c) {
		case 0:
			list = append(list, t.at(first[dir].Package, "package %s has no package comment in any file; the guide goes into doc.go", first[dir].Name))
		case 1:
		default:
			for _, f := range c[1:] {
				list = append(list, t.at(f.Doc.Pos(), "another package comment, the first is in %s; keep one, in doc.go", c[0].path))
			}
		}
	}
	return list
}

// DocComments checks that every exported name is documented: types, functions,
// constants, variables, and the methods of exported types. In a group of
// constants or variables one comment above the group will do.
func DocComments(t *Tree) []string {
	var list []string
	for _, f := range t.goes {
		if f.test || f.Name.Name == "main" {
			continue
		}
		missing := func(id *ast.Ident, kind string) {
			list = append(list, t.at(id.Pos(), "exported %s %s has no doc comment", kind, id.Name))
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				switch {
				case !d.Name.IsExported() || d.Doc.Text() != "":
				case d.Recv == nil:
					missing(d.Name, "function")
				case ast.IsExported(receiver(d)) && !slices.Contains(obvious, d.Name.Name):
					missing(d.Name, "method "+receiver(d)+"'s")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() && s.Doc.Text() == "" && (d.Lparen.IsValid() || d.Doc.Text() == "") {
							missing(s.Name, "type")
						}
					case *ast.ValueSpec:
						if s.Doc.Text() != "" || s.Comment.Text() != "" || d.Doc.Text() != "" {
							continue
						}
						for _, id := range s.Names {
							if id.IsExported() {
								missing(id, strings.ToLower(d.Tok.String()))
							}
						}
					}
				}
			}
		}
	}
	return list
}

// obvious are the methods whose meaning an interface of the standard library
// fixes; anything particular about one is documented at its type.
var obvious = []string{"Error", "Unwrap"}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.IndexListExpr:
			x = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// commentWords are the marks of unfinished work. They are put together here so
// that this file does not hold them.
var commentWords = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}

// isWord reports whether the byte before or behind a mark makes it a part of a
// longer word.
func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// findWord finds a whole word in text.
func findWord(text, word string) bool {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(word)
		if (at == 0 || !isWord(text[at-1])) && (end == len(text) || !isWord(text[end])) {
			return true
		}
	}
}

// Unfinished finds marks of unfinished work: in the comments of Go files, since
// a string may have to know such a word, and anywhere in other text.
func Unfinished(t *Tree) []string {
	var list []string
	for _, f := range t.goes {
		for _, group := range f.Comments {
			for _, c := range group.List {
				for _, w := range commentWords {
					if findWord(c.Text, w) {
						list = append(list, t.at(c.Pos(), "says %s: do it or leave it out", w))
					}
				}
			}
		}
	}
	for at, line := range t.lines {
		for _, w := range commentWords {
			if !strings.HasSuffix(at.file, ".go") && !inTestdata(at.file) && findWord(line, w) {
				list = append(list, at.offence("says %s: do it or leave it out", w))
			}
		}
	}
	return list
}
