package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// An item is one file of the inbox.
type item struct {
	File   string // its name in the inbox, which is the item's id
	Bytes  []byte
	Symbol string // what the text documents
	Text   string // what is to be summarised
	Bad    error  // why the file cannot be read as an item
}

// inboxFile is the form of an inbox file.
type inboxFile struct {
	Symbol string `json:"symbol"`
	Text   string `json:"text"`
}

// maxName leaves room for the longer name of the result, and of its temp file.
const maxName = 200

// maxItem bounds an inbox file; a text to summarise is far below.
const maxItem = 4 << 20

// readInbox reads every *.json file of the folder, in the order of their names.
// A file that is no item comes back with Bad set, so that it can be named: one
// bad file must not stop the night.
func readInbox(dir string) ([]item, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	var items []item
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		items = append(items, readItem(dir, e.Name()))
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("inbox: %s has no *.json file; put one item a file there, or remove the folder to have the demo's items written", dir)
	}
	return items, nil
}

func readItem(dir, name string) item {
	bad := func(err error) item {
		// Its name stands for the bytes that cannot be had.
		it := parseItem(strings.ToValidUTF8(name, "\uFFFD"), []byte(name))
		it.Bad = err
		return it
	}
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return bad(fmt.Errorf("inbox file cannot be read: %w", err))
	case !info.Mode().IsRegular():
		return bad(fmt.Errorf("inbox file is no regular file: %v", info.Mode()))
	case info.Size() > maxItem:
		return bad(fmt.Errorf("inbox file has %d bytes, at most %d are read", info.Size(), maxItem))
	case !utf8.ValidString(name):
		return bad(errors.New("inbox file has a name that is not UTF-8"))
	case len(name) > maxName:
		return bad(fmt.Errorf("inbox file has a name of %d bytes, at most %d leave room for its result's", len(name), maxName))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return bad(fmt.Errorf("inbox file cannot be read: %w", err))
	}
	return parseItem(name, b)
}

func parseItem(name string, b []byte) item {
	it := item{File: name, Bytes: b}
	var f inboxFile
	switch err := json.Unmarshal(b, &f); {
	case err != nil:
		it.Bad = fmt.Errorf("inbox file is not JSON: %w", err)
	case strings.TrimSpace(f.Text) == "":
		it.Bad = errors.New(`inbox file has no "text" to summarise`)
	default:
		it.Symbol, it.Text = f.Symbol, f.Text
	}
	return it
}

// writeInbox fills the folder with n items: doc comments of the standard
// library's exported symbols, real text that is on every machine with Go.
func writeInbox(dir string, n int) error {
	docs, err := standardDocs(n)
	if err != nil {
		return err
	}
	if len(docs) < n {
		return fmt.Errorf("inbox: the standard library documents %d symbols, -n %d asks for more", len(docs), n)
	}
	// The folder appears whole or not at all: a run killed here leaves only a
	// folder that the next one replaces.
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	for i, d := range docs {
		b, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return fmt.Errorf("inbox: %w", err)
		}
		if err := os.WriteFile(filepath.Join(part, fileName(i, d.Symbol)), append(b, '\n'), 0o644); err != nil {
			return fmt.Errorf("inbox: %w", err)
		}
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	return durable.SyncDir(nil, filepath.Dir(dir))
}

// fileName is unique by its number also where the file system folds case.
func fileName(i int, symbol string) string {
	return fmt.Sprintf("%05d-%s.json", i+1, strings.NewReplacer("/", "-", "*", "", "(", "", ")", "").Replace(symbol))
}

// standardDocs returns the first n documented exported symbols of the standard
// library, package by package in the order of their paths.
func standardDocs(n int) ([]inboxFile, error) {
	root, err := goroot()
	if err != nil {
		return nil, err
	}
	var docs []inboxFile
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch d.Name() {
		case "testdata", "vendor", "internal", "cmd":
			return filepath.SkipDir
		}
		more, err := packageDocs(root, path)
		if err != nil {
			return err
		}
		if docs = append(docs, more...); len(docs) >= n {
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: reading the standard library: %w", err)
	}
	return docs[:min(n, len(docs))], nil
}

// goroot finds the sources of the standard library.
func goroot() (string, error) {
	root := build.Default.GOROOT
	if root == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("inbox: where is Go? %w (put items into the inbox yourself to do without)", err)
		}
		root = strings.TrimSpace(string(out))
	}
	return filepath.Join(root, "src"), nil
}

func packageDocs(root, dir string) ([]inboxFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if ok, err := build.Default.MatchFile(dir, e.Name()); err != nil || !ok {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, nil
	}
	path, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	path = filepath.ToSlash(path)
	pkg, err := doc.NewFromFiles(fset, files, path)
	if err != nil {
		return nil, err
	}
	var docs []inboxFile
	add := func(symbol, text string) {
		if text = strings.TrimSpace(text); text != "" {
			docs = append(docs, inboxFile{Symbol: symbol, Text: text})
		}
	}
	add(path, pkg.Doc)
	for _, f := range pkg.Funcs {
		add(path+"."+f.Name, f.Doc)
	}
	for _, t := range pkg.Types {
		add(path+"."+t.Name, t.Doc)
		for _, f := range t.Funcs {
			add(path+"."+f.Name, f.Doc)
		}
		for _, m := range t.Methods {
			add(path+"."+t.Name+"."+m.Name, m.Doc)
		}
	}
	slices.SortFunc(docs, func(a, b inboxFile) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return docs, nil
}
