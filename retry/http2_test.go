package retry_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// Frame types and flags of HTTP/2 (RFC 9113, section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7

	flagAck        = 1
	flagEndStream  = 1
	flagEndHeaders = 4
)

// h2 is a server that speaks just enough HTTP/2 to refuse its first request
// unprocessed, which a handler of net/http cannot, and to answer the others.
type h2 struct {
	refuse    func(stream uint32) (kind byte, on uint32, payload []byte)
	got       atomic.Int32 // requests received
	processed atomic.Int32
	wg        sync.WaitGroup
}

func (s *h2) start(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() {
				defer c.Close()
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.wg.Wait()
	})
	return "http://" + ln.Addr().String()
}

func (s *h2) serve(c net.Conn) {
	r := bufio.NewReader(c)
	if _, err := r.Discard(24); err != nil { // the client's preface
		return
	}
	write := func(kind, flags byte, stream uint32, payload []byte) {
		b := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		b = binary.BigEndian.AppendUint32(b, stream)
		_, _ = c.Write(append(b, payload...))
	}
	write(frameSettings, 0, 0, nil)
	for {
		var h [9]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return
		}
		if _, err := r.Discard(int(h[0])<<16 | int(h[1])<<8 | int(h[2])); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(h[5:])
		switch {
		case h[3] == frameSettings && h[4]&flagAck == 0:
			write(frameSettings, flagAck, 0, nil)
		case h[3] == frameData && h[4]&flagEndStream != 0:
			if s.got.Add(1) == 1 {
				kind, on, payload := s.refuse(stream)
				write(kind, 0, on, payload)
				if kind == frameGoAway {
					return
				}
				continue
			}
			s.processed.Add(1)
			write(frameHeaders, flagEndHeaders, stream, []byte{0x88}) // :status 200 of the static table
			write(frameData, flagEndStream, stream, []byte(goodBody))
		}
	}
}

// A stream that the server refuses, or leaves unprocessed as it says goodbye,
// is an attempt of ours where net/http must not repeat it by itself. Otherwise
// net/http sends it again, and the call that the server processed is the one
// that is reported.
func TestHTTP2RequestsThatWereNotProcessed(t *testing.T) {
	t.Parallel()
	number := func(ns ...uint32) (b []byte) {
		for _, n := range ns {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	for name, refuse := range map[string]func(uint32) (byte, uint32, []byte){
		"REFUSED_STREAM": func(stream uint32) (byte, uint32, []byte) { return frameReset, stream, number(7) },
		"GOAWAY":         func(uint32) (byte, uint32, []byte) { return frameGoAway, 0, number(0, 0) },
	} {
		for _, key := range []string{"", "Idempotency-Key"} {
			t.Run(fmt.Sprintf("%s %q", name, key), func(t *testing.T) {
				t.Parallel()
				s := &h2{refuse: refuse}
				url := s.start(t)
				base := &http.Transport{Protocols: new(http.Protocols)}
				base.Protocols.SetUnencryptedHTTP2(true)
				defer base.CloseIdleConnections()
				r := mustNew(t, noWait(retry.Config{}))
				req := post(t, url, "{}")
				want := s.processed.Load
				if key != "" {
					req.Header.Set(key, "k-1")
					want = s.got.Load
				}
				resp, err := retry.NewTransport(base, r).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "protocol", resp.ProtoMajor, 2)
				equal(t, "answer", readAll(t, resp), goodBody)
				equal(t, "received and processed", []int32{s.got.Load(), s.processed.Load()}, []int32{2, 1})
				equal(t, "reported", int(r.Stats().Calls), int(want()))
			})
		}
	}
}

// A real server says GOAWAY after each answer: every attempt has a connection
// of its own, and every one is counted.
func TestGoAwayAfterEveryAnswer(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	conns := make(map[string]bool)
	var mu sync.Mutex
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		conns[req.RemoteAddr] = true
		mu.Unlock()
		w.Header().Set("Connection", "close")
		if hits.Add(1) < 4 {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goodBody)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := retry.NewTransport(srv.Client().Transport, r).RoundTrip(post(t, srv.URL, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "protocol", resp.ProtoMajor, 2)
	equal(t, "answer", readAll(t, resp), goodBody)
	mu.Lock()
	defer mu.Unlock()
	equal(t, "hits, connections, reported", []int{int(hits.Load()), len(conns), int(r.Stats().Calls)}, []int{4, 4, 4})
}
