package sqltest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// cutter is a way to a server that breaks when it has seen a text and the
// server's answer to it, which it keeps.
type cutter struct {
	socket, to string
	text       atomic.Pointer[string]
	skip       atomic.Int64 // so many of the text pass
	cuts       atomic.Int64
	then       func() // before the client learns of it; nil = nothing
}

func (c *cutter) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
}

// store opens the letters through c.
func (c *cutter) store(t *testing.T, b database) *sqlstore.Store {
	t.Helper()
	dir := t.TempDir()
	// Values within the text, so that what is cut is what is executed.
	if b.dialect == sqlstore.PostgreSQL {
		c.socket, c.to = filepath.Join(dir, ".s.PGSQL.5432"), filepath.Join(postgres.dir, ".s.PGSQL.5432")
		b.dsn = "host=" + dir + " user=test dbname=postgres default_query_exec_mode=simple_protocol"
	} else {
		c.socket, c.to = filepath.Join(dir, "socket"), filepath.Join(mariadb.dir, "socket")
		b.dsn = "root@unix(" + c.socket + ")/test?interpolateParams=true"
	}
	c.listen(t)
	return b.store(t, nil)
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("unix", c.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var cut atomic.Bool
	go func() {
		defer func() { _ = server.Close() }()
		buf := make([]byte, 1<<20)
		for {
			n, err := client.Read(buf)
			if text := c.text.Load(); text != nil && bytes.Contains(buf[:n], []byte(*text)) && c.skip.Add(-1) < 0 && c.text.CompareAndSwap(text, nil) {
				cut.Store(true)
			}
			if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		if cut.Load() {
			c.cuts.Add(1)
			if c.then != nil {
				c.then()
			}
			return
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// Why: when the connection breaks between the commit and its reply, trying again
// would count a failure twice, and giving up would call a stored letter lost.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			way := &cutter{}
			s := way.store(t, b)
			put := func() {
				t.Helper()
				if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Attempts: 1, Payload: []byte("p")}); err != nil {
					t.Errorf("put: %v", err)
				}
			}
			cut := func(text string, cuts int64, do func()) {
				t.Helper()
				text += " " + b.table
				way.text.Store(&text)
				do()
				if n := way.cuts.Load(); n != cuts {
					t.Fatalf("%d connections were cut, want %d", n, cuts)
				}
			}
			cut("INSERT INTO", 1, put) // of the payload
			cut("UPDATE", 2, put)
			r, err := s.Get(t.Context(), deadletter.ID("q", "a"))
			if err != nil || r.Failures != 2 || r.TotalCalls != 2 || string(r.Payload) != "p" {
				t.Errorf("after two puts: %+v, %v", r, err)
			}
			var c []deadletter.Claim
			cut("UPDATE", 3, func() { c, err = s.Claim(t.Context(), deadletter.ClaimReq{}) })
			if err != nil || len(c) != 1 || string(c[0].Record.Payload) != "p" || c[0].Record.Replays != 1 {
				t.Fatalf("claimed %+v, %v", c, err)
			}
			cut("UPDATE", 4, func() {
				if err := s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
					t.Errorf("resolve: %v", err)
				}
			})
			if r, err := s.Get(t.Context(), r.ID); err != nil || r.State != deadletter.Acked {
				t.Errorf("after the ack: %+v, %v", r, err)
			}
			if err := s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}); err == nil {
				t.Error("a second ack succeeded")
			}
		})
	}
}

// Why: the letter that a Put has written and does not know of is anybody's. When
// another Put replaces its payload meanwhile, that payload is gone, and writing
// the letter again with it would leave the item without one.
func TestLostReplyAndAnotherPut(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			other := b.store(t, nil)
			put := func(s *sqlstore.Store, payload string) {
				if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte(payload)}); err != nil {
					t.Errorf("put %s: %v", payload, err)
				}
			}
			way := &cutter{then: func() { put(other, "another") }}
			s := way.store(t, b)
			put(s, "first")
			text := "UPDATE " + b.table
			way.text.Store(&text)
			put(s, "second")
			r, err := s.Get(t.Context(), deadletter.ID("q", "a"))
			if err != nil || string(r.Payload) != "second" || way.cuts.Load() != 1 {
				t.Errorf("%d connections were cut; the letter is %+v, %v", way.cuts.Load(), r, err)
			}
			if n := b.count(t, "_payload"); n != 1 {
				t.Errorf("%d payloads, want 1", n)
			}
		})
	}
}

// Why: a replay that is cancelled while it claims has sent nothing. Letters that
// it never got must not be kept from the next one, nor come nearer to quarantine.
func TestCancelledClaim(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			way := &cutter{then: cancel}
			s := way.store(t, b)
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("p")}); err != nil {
				t.Fatal(err)
			}
			text := "SELECT data FROM " + b.table
			way.text.Store(&text)
			if c, err := s.Claim(ctx, deadletter.ClaimReq{Lease: time.Hour}); len(c) != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("claimed %d, %v", len(c), err)
			}
			c, err := s.Claim(t.Context(), deadletter.ClaimReq{})
			if len(c) != 1 || err != nil || c[0].Record.Replays != 1 {
				t.Errorf("%d cuts; afterwards claimed %+v, %v", way.cuts.Load(), c, err)
			}
		})
	}
}

// Why: a payload may be replaced between the letter and it, which a second look
// tells. Where that one fails nobody knows, and a letter must not be called
// damaged that is not.
func TestSecondLookFails(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			way := &cutter{}
			s := way.store(t, b)
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("p")}); err != nil {
				t.Fatal(err)
			}
			b.exec(t, "DELETE FROM TABLE_payload")
			id := deadletter.ID("q", "a")
			if _, err := s.Get(t.Context(), id); !errors.Is(err, deadletter.ErrCorrupt) {
				t.Errorf("a payload that is gone: %v", err)
			}
			text := "FROM " + b.table + " WHERE id"
			way.skip.Store(1)
			way.text.Store(&text)
			if _, err := s.Get(t.Context(), id); err == nil || errors.Is(err, deadletter.ErrCorrupt) || way.cuts.Load() != 1 {
				t.Errorf("%d connections were cut: %v", way.cuts.Load(), err)
			}
		})
	}
}
