package breaker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// damage is what makes bytes no record.
type damage struct{ cause error }

func (d *damage) Error() string { return d.cause.Error() }
func (d *damage) Unwrap() error { return d.cause }

// update is one operation of the store, and the repair of a damaged record.
func (b *Breaker) update(ctx context.Context, epoch uint64, apply func(record) exchanged) (exchanged, error) {
	var out exchanged
	var damaged []byte
	err := b.cfg.Store.Update(ctx, b.cfg.Name, func(old []byte) ([]byte, error) {
		out, damaged = exchanged{}, nil
		s, err := read(old)
		if err != nil {
			damaged = bytes.Clone(old)
			return nil, err
		}
		return b.write(&out, old, apply(s))
	})
	var d *damage
	if !errors.As(err, &d) {
		return out, err
	}

	kept, err := b.keep(ctx, damaged)
	if err != nil {
		return exchanged{}, err
	}
	repaired := false
	err = b.cfg.Store.Update(ctx, b.cfg.Name, func(old []byte) ([]byte, error) {
		out, repaired = exchanged{}, false
		s, err := read(old)
		if err != nil {
			if !bytes.Equal(old, damaged) {
				return nil, err
			}
			s, repaired = afterDamage(epoch, b.clock.Now()), true
		}
		done := apply(s)
		done.eff.changed = done.eff.changed || repaired
		return b.write(&out, old, done)
	})
	if err == nil && repaired {
		now := b.clock.Now()
		b.mu.Lock()
		b.counts.damaged++
		b.trouble(&StoreError{Name: b.cfg.Name, Damaged: kept, Err: d.cause}, now)
		b.mu.Unlock()
	}
	return out, err
}

func read(old []byte) (record, error) {
	if old == nil {
		return record{}, nil
	}
	s, err := decode(old)
	if err != nil {
		return s, &damage{err}
	}
	return s, nil
}

func (b *Breaker) write(out *exchanged, old []byte, done exchanged) ([]byte, error) {
	*out = done
	if out.wrote = done.eff.changed; !out.wrote {
		return old, nil
	}
	return encode(b.cfg.Name, done.rec)
}

// keep copies bytes that are no record to a name of their own, where nothing
// overwrites them, and returns it.
func (b *Breaker) keep(ctx context.Context, damaged []byte) (string, error) {
	sum := sha256.Sum256(damaged)
	name := b.cfg.Name + ".damaged-" + hex.EncodeToString(sum[:6])
	if len(damaged) > maxValue {
		damaged = damaged[:maxValue]
	}
	return name, b.cfg.Store.Update(ctx, name, func([]byte) ([]byte, error) { return damaged, nil })
}

// afterDamage is the start after a record that could not be read: it may have
// said open, so one probe must find out first.
func afterDamage(epoch uint64, now time.Time) record {
	return record{State: Open, Epoch: epoch + 1, OpenedAt: wall(now), Reason: "the stored state was damaged"}
}

// load reads the store for New. It writes nothing, not even a repair; hooks
// wait for the first call.
func (b *Breaker) load(now time.Time) {
	ctx, cancel := b.detached(context.Background())
	defer cancel()
	var seq uint64
	var err error
	if b.numbers != nil {
		seq, err = b.numbers.Seq(b.cfg.Name)
	}
	var s record
	if err == nil {
		var found exchanged
		found, err = b.run(ctx, func(ctx context.Context) (found exchanged, err error) {
			err = b.cfg.Store.Update(ctx, b.cfg.Name, func(old []byte) (_ []byte, err error) {
				found.rec, err = read(old)
				return old, err
			})
			return found, err
		})
		s = found.rec
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var d *damage
	switch {
	case errors.As(err, &d):
		s = afterDamage(0, now)
		b.unsure.Store(true)
	case err != nil:
		b.failed(err, now)
		return
	}
	b.base = s
	b.install(s, now)
	if err == nil {
		b.worked(seq, now)
	}
}
