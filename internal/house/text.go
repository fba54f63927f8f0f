package house

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// place is a line of a file, from 1.
type place struct {
	file string
	line int
}

func (p place) offence(format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

// lines gives each line of each text file.
func (t *Tree) lines(yield func(at place, line string) bool) {
	for _, p := range t.files {
		b, err := fs.ReadFile(t.root, p)
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			continue
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			if !yield(place{p, n}, strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

var (
	homePath    = regexp.MustCompile(`(^|[\s"'\x60=(])/(home|Users)/[a-z]|[A-Z]:\\Users\\`)
	mdPage      = regexp.MustCompile(`[\w./-]*\w\.md\b`)
	sectionSign = regexp.MustCompile(`(\S+)\s*§`)
)

// Places finds the names of places that a reader does not have: paths of the
// machine where it was written, of which checkout is one if it is not "", and
// pages, or their sections, that are not in the repository.
func Places(t *Tree, checkout string) []string {
	var list []string
	for at, line := range t.lines {
		if strings.HasPrefix(at.file, "internal/house/") || strings.Contains(at.file, "/testdata/") {
			continue // they hold what the rules and the signatures are shown
		}
		if homePath.MatchString(line) || len(checkout) > 5 && strings.Contains(line, checkout) {
			list = append(list, at.offence("names a path of one machine"))
		}
		for _, page := range mdPage.FindAllString(line, -1) {
			// Links have a rule of their own, and a path may be relative.
			if !strings.Contains(line, "://") && !t.hasPage(path.Base(page)) {
				list = append(list, at.offence("refers to %q, which is not in the repository; say the rule itself or name a public source", page))
			}
		}
		for _, m := range sectionSign.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(line, "RFC") {
				list = append(list, at.offence("refers to a section (%q) of something that is not in the repository", m[0]))
			}
		}
	}
	return list
}

func (t *Tree) hasPage(base string) bool {
	return slices.ContainsFunc(t.files, func(p string) bool { return path.Base(p) == base })
}

// PageCode checks that the Go code of the README is code that is built and
// tested: each block stands, but for its indentation, in a file below examples.
func PageCode(t *Tree) []string {
	var examples []string
	for _, p := range t.files {
		if strings.HasPrefix(p, "examples/") && strings.HasSuffix(p, ".go") {
			if b, err := fs.ReadFile(t.root, p); err == nil {
				examples = append(examples, dedent(strings.Split(string(b), "\n")))
			}
		}
	}
	var (
		list  []string
		block []string
		begin place
	)
	for at, line := range t.lines {
		switch {
		case at.file != "README.md":
		case begin.line == 0 && strings.TrimSpace(line) == "```go":
			begin, block = at, nil
		case begin.line > 0 && strings.HasPrefix(line, "```"):
			code := dedent(block)
			if !slices.ContainsFunc(examples, func(e string) bool { return strings.Contains(e, code) }) {
				list = append(list, begin.offence("this Go code stands in no file below examples, so nobody builds it"))
			}
			begin = place{}
		case begin.line > 0:
			block = append(block, line)
		}
	}
	return list
}

// dedent takes the indentation off, so that code is the same at any depth.
func dedent(lines []string) string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimSpace(l)
	}
	return strings.Join(out, "\n")
}

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	mdScheme  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	mdHeading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	mdDropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// Links checks the relative links of the Markdown files: the file or folder is
// there, and so is the heading that a link into a Markdown file names.
func Links(t *Tree) []string {
	headings := map[string][]string{}
	type link struct {
		place
		target string
	}
	var links []link
	fence := map[string]bool{}
	for at, line := range t.lines {
		if path.Ext(at.file) != ".md" || inTestdata(at.file) {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence[at.file] = !fence[at.file]
		}
		if fence[at.file] {
			continue
		}
		if m := mdHeading.FindStringSubmatch(line); m != nil {
			headings[at.file] = append(headings[at.file], anchor(m[1]))
		}
		for _, m := range mdLink.FindAllStringSubmatch(line, -1) {
			if !mdScheme.MatchString(m[1]) {
				links = append(links, link{at, m[1]})
			}
		}
	}
	var list []string
	for _, l := range links {
		name, fragment, _ := strings.Cut(l.target, "#")
		file := l.file
		if name != "" {
			file = path.Join(path.Dir(l.file), name)
		}
		if _, err := fs.Stat(t.root, file); err != nil {
			list = append(list, l.offence("links to %s, which does not exist", l.target))
			continue
		}
		if fragment != "" && path.Ext(file) == ".md" && !slices.Contains(headings[file], fragment) {
			list = append(list, l.offence("links to %s, but %s has no such heading", l.target, file))
		}
	}
	return list
}

// anchor is the name that code hosts give to a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(mdDropped.ReplaceAllString(heading, "")), " ", "-")
}
