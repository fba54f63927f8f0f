package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

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
// Its methods are safe for concurrent use.
type probes struct {
	path string
	was  []string // in the file

	mu    sync.Mutex
	list  []probe
	turns int
}

// probe is an item that has failed as one.
type probe struct {
	id   string
	turn int // to be one again, after lower ones
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
	p.was = f.Failed
	for _, id := range f.Failed {
		p.failed(id)
	}
	return p, nil
}

// turn returns when it is an item's turn to be the probe again, after lower ones;
// 0 for one that has not failed.
func (p *probes) turn(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.index(id); i >= 0 {
		return p.list[i].turn
	}
	return 0
}

// failed notes that the item failed and returns its turn, which is after all
// others.
func (p *probes) failed(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(id)
	p.turns++
	p.list = append(p.list, probe{id, p.turns})
	p.list = p.list[max(0, len(p.list)-maxProbes):]
	return p.turns
}

// over notes that the item was done.
func (p *probes) over(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(id)
}

func (p *probes) index(id string) int {
	return slices.IndexFunc(p.list, func(q probe) bool { return q.id == id })
}

func (p *probes) remove(id string) {
	if i := p.index(id); i >= 0 {
		p.list = slices.Delete(p.list, i, i+1)
	}
}

// write keeps them for the next run.
func (p *probes) write() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.list))
	for _, q := range p.list {
		names = append(names, q.id)
	}
	if slices.Equal(names, p.was) {
		return nil
	}
	b, err := json.Marshal(probeFile{V: 1, Failed: names})
	if err == nil {
		err = durable.WriteFile(nil, p.path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("batch: the next run chooses the probes that failed in this one: %w", err)
	}
	return nil
}
