package sqltest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// Why: a server that hangs must not hang the batch, one that dies must not take
// letters with it, and neither may look like success. It stops the servers, so it
// runs alone, before the tests that are parallel.
func TestServerStops(t *testing.T) {
	for _, srv := range []*server{postgres, mariadb} {
		t.Run(srv.dialect.String(), func(t *testing.T) {
			b := newDatabase(t, srv.dialect)
			s := b.store(t, nil)
			fill(t, s, 50, func(int) deadletter.Record { return deadletter.Record{Payload: []byte("p")} })
			held, err := s.Claim(t.Context(), deadletter.ClaimReq{N: 10, Lease: time.Hour})
			if err != nil || len(held) != 10 {
				t.Fatal(len(held), err)
			}

			srv.signal(syscall.SIGSTOP)
			calls := map[string]func(context.Context) error{
				"put": func(ctx context.Context) error { return s.Put(ctx, deadletter.Record{Queue: "q", ItemID: "late"}) },
				"resolve": func(ctx context.Context) error {
					return s.Resolve(ctx, held[0].Token, deadletter.Outcome{Verb: deadletter.Release})
				},
				"claim": func(ctx context.Context) error { _, err := s.Claim(ctx, deadletter.ClaimReq{}); return err },
				"stats": func(ctx context.Context) error { _, err := s.Stats(ctx, deadletter.Filter{}); return err },
				"list": func(ctx context.Context) (err error) {
					for _, err = range s.List(ctx, deadletter.Filter{}) {
					}
					return err
				},
			}
			// The signal takes its time, in which the server answers.
			for hangs := false; !hangs; {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				hangs = calls["stats"](ctx) != nil
				cancel()
			}
			for what, call := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				// The test's own end is the proof that it comes back.
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s while the server hangs: %v", what, err)
				}
				cancel()
			}
			srv.kill()
			for what, call := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if err := call(ctx); err == nil {
					t.Errorf("%s without a server succeeded", what)
				}
				cancel()
			}

			if err := srv.run(); err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				r, err := s.Get(t.Context(), deadletter.ID("q", fmt.Sprintf("item-%04d", i)))
				if err != nil || string(r.Payload) != "p" || r.Failures != 1 {
					t.Fatalf("after the restart: %+v, %v", r, err)
				}
			}
			for _, c := range held[1:] {
				if err := s.Resolve(t.Context(), c.Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
					t.Errorf("a claim from before the restart: %v", err)
				}
			}
			if err := calls["put"](t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Why: SQLite has no server, but one that writes and hangs.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	b := newDatabase(t, sqlstore.SQLite)
	s := b.store(t, nil)
	if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"}); err != nil {
		t.Fatal(err)
	}
	conn, err := b.connect(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, deadletter.Record{Queue: "q", ItemID: "b"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put into a locked file: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "b"}); err != nil {
		t.Error(err)
	}
	if n := b.count(t, ""); n != 2 {
		t.Errorf("%d letters, want 2", n)
	}
}
