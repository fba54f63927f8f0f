package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// maxProbes is how many failed probes are kept: the last ones.
const maxProbes = lookAhead

// probes are the items that failed while they went alone, or whose key was
// refused, and that have no result since, the first to fail first. They are kept
// in the folder: where a refusal ends the run, the cheapest item would be the next
// run's probe too, and one that always fails would keep all others from being
// tried.
//
// Its methods are not safe for concurrent use.
type probes struct {
	path  string
	names []string
	was   []string // in the file
	turns int
}

// probeFile is the file's form.
type probeFile struct {
	V      int      `json:"v"` // 1
	Failed []string `json:"failed"`
}

// readProbes reads those of the folder. With an error there are none, and nothing
// but the order of the next probes is lost.
func readProbes(dir string) (*probes, error) {
	p := &probes{path: filepath.Join(dir, "probes.json")}
	b, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var f probeFile
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err == nil && f.V != 1 {
		err = fmt.Errorf("version %d", f.V)
	}
	if err != nil {
		return p, fmt.Errorf("batch: which probes have failed before is forgotten: %w", err)
	}
	p.names = f.Failed[max(0, len(f.Failed)-maxProbes):]
	p.was, p.turns = slices.Clone(p.names), len(p.names)
	return p, nil
}

// turn returns when it is an item's turn to be the probe again, after lower ones;
// 0 for one that has not failed.
func (p *probes) turn(id string) int { return slices.Index(p.names, asText(id)) + 1 }

// failed notes that the item failed and returns its turn, which is after all
// others.
func (p *probes) failed(id string) int {
	p.over(id)
	p.names = append(p.names, asText(id))
	p.turns++
	return p.turns
}

// over notes that the item was done.
func (p *probes) over(id string) {
	p.names = slices.DeleteFunc(p.names, func(name string) bool { return name == asText(id) })
}

// write keeps them for the next run.
func (p *probes) write() error {
	p.names = p.names[max(0, len(p.names)-maxProbes):]
	if slices.Equal(p.names, p.was) {
		return nil
	}
	b, err := json.Marshal(probeFile{V: 1, Failed: p.names})
	if err == nil {
		err = durable.WriteFile(nil, p.path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("batch: the next run chooses the probes that failed in this one: %w", err)
	}
	return nil
}
