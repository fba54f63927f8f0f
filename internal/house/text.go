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

// The names of places outside the repository, put together so that this file
// does not hold them.
var (
	machinePath = regexp.MustCompile(`/wor` + `k/(main|shared|\.library)\b|/tm` + `p/(nf|bash_jobs)\b`)
	outsidePage = regexp.MustCompile(`\b(DESI` + `GN|STY` + `LE)\.md\b|\b(DESI` + `GN|STY` + `LE) (§|rule)|\b(fact` + `s|case` + `s)/[a-z-]+\.md\b`)
)

// Places finds the names of places that a reader does not have: the paths of
// the machine where it was written, of which checkout is one if it is not "",
// and pages that are not in the repository.
func Places(t *Tree, checkout string) []string {
	var list []string
	for at, line := range t.lines {
		if m := machinePath.FindString(line); m != "" {
			list = append(list, at.offence("names %s, a path of one machine", m))
		} else if len(checkout) > 5 && strings.Contains(line, checkout) {
			list = append(list, at.offence("names %s, a path of this machine", checkout))
		}
		if m := outsidePage.FindString(line); m != "" {
			list = append(list, at.offence("refers to %q, which is not in the repository; say the rule itself or name a public source", m))
		}
	}
	return list
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
