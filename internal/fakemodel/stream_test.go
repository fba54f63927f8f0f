package fakemodel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// chunk is an event of a stream as tests see it.
type chunk struct {
	Text   string
	Finish string
	Usage  string // absent, null or the total
	Error  string
}

// chunks decodes a stream's body. [DONE] is a chunk with that text.
func chunks(t *testing.T, body string) []chunk {
	t.Helper()
	var out []chunk
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			if lines.Text() != "" {
				t.Errorf("line %q: want data or an empty line", lines.Text())
			}
			continue
		}
		if data == "[DONE]" {
			out = append(out, chunk{Text: data})
			continue
		}
		var w struct {
			Object  string
			Choices []struct {
				Delta  struct{ Role, Content string }
				Finish string `json:"finish_reason"`
			}
			Usage json.RawMessage
			Error struct{ Code string }
		}
		if err := json.Unmarshal([]byte(data), &w); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		c := chunk{Error: w.Error.Code, Usage: "absent"}
		if w.Error.Code == "" && w.Object != "chat.completion.chunk" {
			t.Errorf("object: got %q", w.Object)
		}
		if len(w.Choices) > 0 {
			c.Text, c.Finish = w.Choices[0].Delta.Content, w.Choices[0].Finish
		}
		if w.Usage != nil {
			c.Usage = string(w.Usage)
		}
		out = append(out, c)
	}
	return out
}

func TestStreams(t *testing.T) {
	t.Parallel()
	all := fakemodel.Pick{Share: 1}
	const (
		words = "one two three four five six"
		total = `{"prompt_tokens":11,"completion_tokens":10,"total_tokens":21}`
	)
	plain := func(usage string) []chunk {
		return []chunk{
			{Usage: usage},
			{Text: "In short: one two ", Usage: usage},
			{Text: "three four five six.", Usage: usage},
			{Finish: "stop", Usage: usage},
		}
	}
	done := chunk{Text: "[DONE]"}
	tests := []struct {
		name    string
		config  fakemodel.Config
		options string
		want    []chunk
		err     error
		billed  int64
	}{
		{name: "no usage unless asked", want: append(plain("absent"), done), billed: 21},
		{
			name: "with usage", options: `"stream_options":{"include_usage":true}`,
			want: append(plain("null"), chunk{Usage: total}, done), billed: 21,
		},
		{
			name: "never usage", config: fakemodel.Config{NoUsage: true}, options: `"stream_options":{"include_usage":true}`,
			want: append(plain("absent"), done), billed: 21,
		},
		{
			name: "capped", options: `"max_tokens":4`,
			want:   []chunk{{Usage: "absent"}, {Text: "In short: one tw", Usage: "absent"}, {Finish: "length", Usage: "absent"}, done},
			billed: 15,
		},
		{
			name: "empty", config: fakemodel.Config{Faults: fakemodel.Faults{Empty: all}},
			want: []chunk{{Usage: "absent"}, {Finish: "stop", Usage: "absent"}, done}, billed: 11,
		},
		{
			name: "cut", config: fakemodel.Config{Faults: fakemodel.Faults{Cut: all}},
			want: plain("absent")[:2], err: io.ErrUnexpectedEOF, billed: 21,
		},
		{
			name: "cut when there is next to nothing", config: fakemodel.Config{Faults: fakemodel.Faults{Cut: all}, Answer: func(string) string { return "" }},
			want: plain("absent")[:1], err: io.ErrUnexpectedEOF, billed: 11,
		},
		{
			name: "stalled", config: fakemodel.Config{Faults: fakemodel.Faults{Stall: all}},
			want: plain("absent")[:2], err: context.DeadlineExceeded, billed: 21,
		},
		{
			name: "error inside", config: fakemodel.Config{Faults: fakemodel.Faults{ErrorIn200: all}},
			want: append(plain("absent")[:2:2], chunk{Error: "overloaded", Usage: "absent"}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fields := []string{`"stream":true`}
				if tt.options != "" {
					fields = append(fields, tt.options)
				}
				body := ask(words, fields...)
				check := func(form string, m *fakemodel.Model, r reply) {
					if diff := cmp.Diff(chunks(t, r.body), tt.want); diff != "" {
						t.Errorf("%s: chunks (-got +want):\n%s", form, diff)
					}
					if !errors.Is(r.err, tt.err) {
						t.Errorf("%s: read: got %v, want %v", form, r.err, tt.err)
					}
					if got := r.header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
						t.Errorf("%s: content type %q", form, got)
					}
					if s := m.Stats(); s.Tokens != tt.billed || s.Status[http.StatusOK] != 1 {
						t.Errorf("%s: billed %d, status %v, want %d and one 200", form, s.Tokens, s.Status, tt.billed)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				m := newModel(t, tt.config)
				check("round trip", m, post(ctx, m, body))
				if s := m.Stats(); s.InFlight != 0 || s.OpenBodies != 0 {
					t.Errorf("after the stream: in flight %d, open %d, want none", s.InFlight, s.OpenBodies)
				}

				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				m = newModel(t, tt.config)
				server := m.StartPipe()
				check("server", m, postTo(ctx, server.Client().Transport, server.URL+"/chat/completions", body))
				if err := server.Close(); err != nil {
					t.Error(err)
				}
				if s := m.Stats(); s.InFlight != 0 {
					t.Errorf("after Close: in flight %d, want none", s.InFlight)
				}
			})
		})
	}
}

// Headers come after the latency, then the events one by one, and a stream is
// in flight until its end.
func TestStreamTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Latency: fakemodel.Latency{Median: 2 * time.Second, Chunk: 300 * time.Millisecond}})
		start := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://fake/chat/completions", strings.NewReader(ask("a b c", `"stream":true`)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("headers after %v, want 2s", got)
		}
		var at []time.Duration
		events := bufio.NewScanner(resp.Body)
		for events.Scan() {
			if events.Text() != "" {
				at = append(at, time.Since(start))
			}
			if got := m.Stats().InFlight; got != 1 {
				t.Errorf("in flight while reading: got %d, want 1", got)
			}
		}
		ms := time.Millisecond
		if diff := cmp.Diff(at, []time.Duration{2000 * ms, 2300 * ms, 2600 * ms, 2900 * ms, 3200 * ms}); diff != "" {
			t.Errorf("events at (-got +want):\n%s", diff)
		}
		if s := m.Stats(); s.InFlight != 0 || s.OpenBodies != 1 {
			t.Errorf("at EOF: in flight %d, open %d, want 0 and 1", s.InFlight, s.OpenBodies)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := m.Stats().OpenBodies; got != 0 {
			t.Errorf("after Close: open %d, want 0", got)
		}
	})
}

// Close frees a reader that waits, as net/http's bodies do.
func TestStreamClosedUnderAReader(t *testing.T) {
	t.Parallel()
	for _, config := range []fakemodel.Config{
		{Faults: fakemodel.Faults{Stall: fakemodel.Pick{Share: 1}}},
		{Latency: fakemodel.Latency{Chunk: time.Hour}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, config)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://fake/chat/completions", strings.NewReader(ask("a", `"stream":true`)))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := m.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			start := time.Now()
			go func() {
				_, err := io.Copy(io.Discard, resp.Body)
				read <- err
			}()
			synctest.Wait()
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if err := <-read; !errors.Is(err, http.ErrBodyReadAfterClose) || time.Since(start) != 0 {
				t.Errorf("read: got %v after %v, want %v at once", err, time.Since(start), http.ErrBodyReadAfterClose)
			}
			if s := m.Stats(); s.InFlight != 0 || s.OpenBodies != 0 {
				t.Errorf("in flight %d, open %d, want none", s.InFlight, s.OpenBodies)
			}
		})
	}
}
