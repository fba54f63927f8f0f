// Package grouping measures how well a function groups labelled messages.
package grouping

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Message is one labelled message.
type Message struct{ Group, Text string }

// Read reads lines of the form group, tab, message. In a message, \\ \n \r and
// \t are escapes; raw says that the messages have none.
func Read(r io.Reader, raw bool) ([]Message, error) {
	var list []Message
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		if sc.Text() == "" {
			continue
		}
		group, text, ok := strings.Cut(sc.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("grouping: line %d has no tab", n)
		}
		if !raw {
			text = unescape.Replace(text)
		}
		list = append(list, Message{group, text})
	}
	return list, sc.Err()
}

var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t")

// Result says how the clusters that were made agree with the labels.
type Result struct {
	Messages, Groups, Clusters int
	GA                         float64 // share of messages whose cluster is exactly their group
	F1                         float64 // over pairs of messages
	Merged                     []Cluster
	Split                      []Cluster
	HTTPFamilies, HTTPIntact   int // families group@NNN whose codes are apart and each whole
	CodeFamilies, CodesIntact  int // families with other codes
	Decoys, DecoysWhole        int // groups decoy_*: numbers that only look like statuses
}

// Cluster is a cluster of several groups, or a group in several clusters.
type Cluster struct {
	Name  string
	Parts []string
}

// Measure groups the messages by key and compares.
func Measure(list []Message, key func(string) string) Result {
	r := Result{Messages: len(list)}
	byGroup := map[string]map[string]int{}
	byKey := map[string]map[string]int{}
	for _, m := range list {
		k := key(m.Text)
		add(byGroup, m.Group, k)
		add(byKey, k, m.Group)
	}
	r.Groups, r.Clusters = len(byGroup), len(byKey)
	var right, made, want float64
	whole := map[string]bool{}
	for g, keys := range byGroup {
		n := 0
		for _, c := range keys {
			n += c
		}
		want += pairs(n)
		for k, c := range keys {
			right += pairs(c)
			if len(keys) == 1 && len(byKey[k]) == 1 {
				r.GA += float64(n)
				whole[g] = true
			}
		}
		if len(keys) > 1 {
			r.Split = append(r.Split, Cluster{g, names(keys)})
		}
	}
	for k, groups := range byKey {
		n := 0
		for _, c := range groups {
			n += c
		}
		made += pairs(n)
		if len(groups) > 1 {
			r.Merged = append(r.Merged, Cluster{k, names(groups)})
		}
	}
	if len(list) > 0 {
		r.GA /= float64(len(list))
	}
	r.F1 = 1
	if made+want > 0 {
		r.F1 = 2 * right / (made + want)
	}
	byName := func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(r.Merged, byName)
	slices.SortFunc(r.Split, byName)
	r.families(byGroup, whole)
	return r
}

func (r *Result) families(byGroup map[string]map[string]int, whole map[string]bool) {
	http, other := map[string]bool{}, map[string]bool{}
	for g := range byGroup {
		if strings.HasPrefix(g, "decoy_") {
			r.Decoys++
			if whole[g] {
				r.DecoysWhole++
			}
		}
		name, code, ok := strings.Cut(g, "@")
		if !ok {
			continue
		}
		m := other
		if len(code) == 3 && code >= "100" && code <= "599" {
			m = http
		}
		if _, seen := m[name]; !seen {
			m[name] = true
		}
		m[name] = m[name] && whole[g]
	}
	count := func(m map[string]bool) (n, intact int) {
		for _, ok := range m {
			n++
			if ok {
				intact++
			}
		}
		return n, intact
	}
	r.HTTPFamilies, r.HTTPIntact = count(http)
	r.CodeFamilies, r.CodesIntact = count(other)
}

// Fprint writes the result on one line and its faults below.
func (r Result) Fprint(w io.Writer, name string, faults bool) {
	fmt.Fprintf(w, "%s: messages %d groups %d clusters %d GA %.3f F1 %.3f merged %d split %d http %d/%d codes %d/%d decoys %d/%d\n",
		name, r.Messages, r.Groups, r.Clusters, r.GA, r.F1, len(r.Merged), len(r.Split),
		r.HTTPIntact, r.HTTPFamilies, r.CodesIntact, r.CodeFamilies, r.DecoysWhole, r.Decoys)
	if !faults {
		return
	}
	for _, c := range r.Merged {
		fmt.Fprintf(w, "  merged %s\n", c.Name)
		for _, p := range c.Parts {
			fmt.Fprintf(w, "    %s\n", p)
		}
	}
	for _, c := range r.Split {
		fmt.Fprintf(w, "  split %s\n", c.Name)
		for _, p := range c.Parts {
			fmt.Fprintf(w, "    %s\n", p)
		}
	}
}

func add(m map[string]map[string]int, a, b string) {
	if m[a] == nil {
		m[a] = map[string]int{}
	}
	m[a][b]++
}

func pairs(n int) float64 { return float64(n) * float64(n-1) / 2 }

func names(m map[string]int) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
