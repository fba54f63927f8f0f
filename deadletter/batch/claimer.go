package batch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// claimerOf is the beginning of the name by which replays in a folder claim
// letters; their pid follows. It is "" when the folder cannot be named.
func claimerOf(dir string) string {
	host, err := os.Hostname()
	abs, bad := filepath.Abs(dir)
	if err != nil || bad != nil {
		return ""
	}
	base := filepath.Base(abs)
	sum := sha256.Sum256([]byte(abs))
	return fmt.Sprintf("%s %s-%x pid ", asText(host), asText(base[:min(len(base), 100)]), sum[:4])
}

// takeOver ends the claims of replays in this folder that were killed: with the
// folder's lock in hand, none of them lives. Each still counts as a replay, or a
// letter that kills the process would do so for ever.
func (p *replayed) takeOver(ctx context.Context) {
	f := p.o.Filter
	f.After, f.Limit, f.States = deadletter.Cursor{}, 0, []deadletter.State{deadletter.Claimed}
	n := 0
	for rec, err := range p.letters.List(ctx, f) {
		if err == nil && strings.HasPrefix(rec.ClaimedBy, p.claimer) {
			err = p.letters.Extend(ctx, deadletter.Token{ID: rec.ID, Seq: rec.ClaimSeq}, time.Nanosecond)
			n++
		}
		if err != nil && !errors.Is(err, deadletter.ErrCorrupt) && !errors.Is(err, deadletter.ErrClaimLost) {
			return // the replay meets it, too
		}
	}
	if n > 0 {
		p.cfg.Logger.Warn("batch: letters that a killed replay had claimed are replayed now", "run", p.cfg.Name, "letters", n)
	}
}
