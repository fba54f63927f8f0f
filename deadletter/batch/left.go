package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// states are those of the letters that the replay is about.
func (p *replayed) states() []deadletter.State {
	if len(p.o.Filter.States) > 0 {
		return p.o.Filter.States
	}
	return []deadletter.State{deadletter.Dead}
}

// holder is somebody who has claimed letters.
type holder struct {
	letters int
	until   time.Time // the last of them
}

// countLeft counts the letters that are there at the end and that the replay has
// not counted: whatever their state is, their items have no result. The quarantined
// count unless o names the states.
func (p *replayed) countLeft(ctx context.Context) error {
	f := p.o.Filter
	f.After, f.Limit = deadletter.Cursor{}, 0
	f.States = append(slices.Clone(p.states()), deadletter.Claimed)
	if len(p.o.Filter.States) == 0 {
		f.States = append(f.States, deadletter.Quarantined)
	}
	rep, quarantined, holders := &p.report, 0, map[string]holder{}
	for rec, err := range p.letters.List(ctx, f) {
		switch {
		case errors.Is(err, deadletter.ErrCorrupt):
			rep.Pending++
			p.warn("a dead letter cannot be read: %v", err)
			continue
		case err != nil:
			return fmt.Errorf("batch: count the letters that are left: %w", err)
		case p.counted[rec.ID]:
			continue
		case rec.State == deadletter.Quarantined && len(p.o.Filter.States) == 0:
			quarantined++
			rep.Dead++
			rep.DeadBefore++
			addName(&rep.DeadItems, nameOf(rec))
			continue
		case rec.State == deadletter.Claimed:
			h := holders[rec.ClaimedBy]
			h.letters++
			if rec.ClaimUntil.After(h.until) {
				h.until = rec.ClaimUntil
			}
			holders[rec.ClaimedBy] = h
		}
		rep.Pending++
		addName(&rep.PendingItems, nameOf(rec))
	}
	if quarantined > 0 {
		p.warn("quarantined, and replayed only when the Filter names that state: %d of the letters", quarantined)
	}
	for _, by := range slices.Sorted(maps.Keys(holders)) {
		h := holders[by]
		p.warn("claimed by %s until %s, who replays them or was killed: %d of the letters", by, h.until.UTC().Format(time.RFC3339), h.letters)
	}
	return nil
}
