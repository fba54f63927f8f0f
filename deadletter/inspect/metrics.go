package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// replays counts results by outcome.
type replays struct {
	mu sync.Mutex
	n  map[string]int
}

// outcomes are those of a replay, so that each is there before its first.
var outcomes = []string{"ack", "return", "quarantine", "release", "lost"}

// Replayed counts a letter of a replay in this process: give it to
// deadletter.Options.OnResult.
func (h *Handler) Replayed(r deadletter.Result) {
	outcome := r.Verb.String()
	if r.Kept != nil {
		outcome = "lost"
	}
	h.replays.mu.Lock()
	defer h.replays.mu.Unlock()
	if h.replays.n == nil {
		h.replays.n = map[string]int{}
	}
	h.replays.n[outcome]++
}

// metricsPage is text in the Prometheus format.
type metricsPage struct{ bytes.Buffer }

func (m *metricsPage) family(name, kind, help string) {
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one value. labels are names and values in turn.
func (m *metricsPage) sample(name string, value float64, labels ...string) {
	m.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		m.WriteByte(",{"[btoi(i == 0)])
		m.WriteString(labels[i] + `="` + labelValue(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		m.WriteByte('}')
	}
	m.WriteString(" " + number(value) + "\n")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func number(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// labelValue escapes what the format asks for.
func labelValue(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// isMetric reports whether name may begin a metric's name.
func isMetric(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func (h *Handler) metrics(w http.ResponseWriter, req *http.Request) {
	s, err := h.cfg.Store.Stats(req.Context(), deadletter.Filter{})
	if err != nil {
		h.cfg.Logger.Error("inspect: store failed", "path", req.URL.Path, "error", err)
		http.Error(w, redact.Err(err, 1<<10), http.StatusInternalServerError)
		return
	}
	m := &metricsPage{}
	m.family("deadletter_items", "gauge", "Letters in the store.")
	for _, q := range slices.Sorted(maps.Keys(s.Queues)) {
		for _, st := range states {
			m.sample("deadletter_items", float64(s.Queues[q][st]), "queue", q, "state", string(st))
		}
	}
	age := 0.0
	if !s.Oldest.IsZero() {
		age = max(h.now().Sub(s.Oldest).Seconds(), 0)
	}
	for _, g := range []struct {
		name, help string
		value      float64
	}{
		{"deadletter_oldest_age_seconds", "Since the first failure of the oldest unresolved letter.", age},
		{"deadletter_quarantined", "Letters that wait for a person.", float64(s.States[deadletter.Quarantined])},
		{"deadletter_payload_bytes", "Payloads of unresolved letters.", float64(s.Bytes)},
		{"deadletter_journal_bytes", "Bytes of the journal on the disk.", float64(s.Disk)},
		{"deadletter_corrupt_lines", "Damaged lines in the journal.", float64(s.Corrupt)},
		{"deadletter_torn_tails", "Unfinished lines that were set aside.", float64(s.Torn)},
	} {
		m.family(g.name, "gauge", g.help)
		m.sample(g.name, g.value)
	}
	h.counters(m)
	for _, key := range slices.Sorted(maps.Keys(h.cfg.More)) {
		for name, value := range h.cfg.More[key]() {
			if name = key + "_" + name; isMetric(name) {
				m.family(name, "untyped", "See the package that counts it.")
				m.sample(name, value)
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.Bytes())
}

// counters writes what this process has counted.
func (h *Handler) counters(m *metricsPage) {
	stats := make([]deadletter.Stats, len(h.cfg.Queues))
	for i, q := range h.cfg.Queues {
		stats[i] = q.Stats()
	}
	for _, c := range []struct {
		name, help string
		value      func(deadletter.Stats) int64
	}{
		{"deadletter_put_total", "Items that failed and were to be stored.", func(s deadletter.Stats) int64 { return s.Dead + s.Lost }},
		{"deadletter_put_errors_total", "Items that could not be stored.", func(s deadletter.Stats) int64 { return s.Lost }},
		{"deadletter_lost_total", "Items that are neither done nor dead.", func(s deadletter.Stats) int64 { return s.Lost }},
		{"deadletter_hook_panics_total", "Panics in hooks.", func(s deadletter.Stats) int64 { return s.HookPanics }},
	} {
		if len(stats) == 0 {
			break
		}
		m.family(c.name, "counter", c.help)
		for _, s := range stats {
			m.sample(c.name, float64(c.value(s)), "queue", s.Name)
		}
	}
	h.replays.mu.Lock()
	defer h.replays.mu.Unlock()
	m.family("deadletter_replays_total", "counter", "Letters of replays in this process.")
	for _, o := range outcomes {
		m.sample("deadletter_replays_total", float64(h.replays.n[o]), "outcome", o)
	}
}

// healthz says whether the store can be read.
func (h *Handler) healthz(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s, err := h.cfg.Store.Stats(req.Context(), deadletter.Filter{})
	if err != nil && !errors.Is(err, req.Context().Err()) {
		h.cfg.Logger.Error("inspect: store failed", "path", req.URL.Path, "error", err)
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "the store cannot be read\n")
		return
	}
	fmt.Fprintf(w, "ok: %d unresolved, %d damaged lines\n", s.Letters(deadletter.Dead, deadletter.Claimed, deadletter.Quarantined), s.Corrupt)
}
