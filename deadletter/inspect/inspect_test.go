package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

// site is a handler over letters in memory, mounted below a path.
type site struct {
	t     testing.TB
	clk   *clock.Mock
	store *deadletter.Memory
	h     *inspect.Handler
	mux   *http.ServeMux
}

func newSite(t testing.TB, c inspect.Config) *site {
	t.Helper()
	s := &site{t: t, clk: clock.NewMock(), mux: http.NewServeMux()}
	s.clk.Set(time.Date(2026, 11, 3, 4, 0, 0, 0, time.UTC))
	var err error
	if s.store, err = (deadletter.StoreConfig{Clock: s.clk}).Memory(); err != nil {
		t.Fatal(err)
	}
	if c.Store == nil {
		c.Store = s.store
	}
	c.Clock = s.clk
	if s.h, err = inspect.New(c); err != nil {
		t.Fatal(err)
	}
	s.mux.Handle("/letters/", http.StripPrefix("/letters", s.h))
	return s
}

func (s *site) put(r deadletter.Record) string {
	s.t.Helper()
	if r.Queue == "" {
		r.Queue = "nightly"
	}
	if err := s.store.Put(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	return deadletter.ID(r.Queue, r.ItemID)
}

func (s *site) do(req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, req)
	return w
}

func (s *site) get(path string) *httptest.ResponseRecorder {
	return s.do(httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/letters/"+path, nil))
}

func (s *site) post(form url.Values) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/letters/act", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.do(req)
}

// state returns the state of a letter.
func (s *site) state(id string) deadletter.State {
	s.t.Helper()
	r, err := s.store.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.State
}

func wants(t *testing.T, w *httptest.ResponseRecorder, code int, words ...string) {
	t.Helper()
	if w.Code != code {
		t.Errorf("status %d, want %d", w.Code, code)
	}
	for _, word := range words {
		if !strings.Contains(w.Body.String(), word) {
			t.Errorf("%q is missing in\n%s", word, w.Body)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{Title: "Night shift"})
	id := s.put(deadletter.Record{
		ItemID: "doc-1", Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded <now>", Owner: "nightly", RunID: "r1",
		Labels: map[string]string{"file": "a.json"}, Payload: []byte("the payload"), EstTokens: 70, Method: "POST", URL: "https://api.example/v1",
		Header: http.Header{"Accept": {"application/json"}}, UpstreamRequestID: "up-1", Attempts: 4,
	})
	s.put(deadletter.Record{Queue: "day", ItemID: "doc-2", Signature: "1:bbbbbbbbbbbb", SignatureText: "connection reset"})
	s.clk.Add(3 * time.Hour)

	wants(t, s.get(""), 200, "Night shift", "503 overloaded", "connection reset", "3 h ago", "list?signature=1%3aaaaaaaaaaaaa", "item?id="+id)
	wants(t, s.get("list"), 200, "doc-1", "doc-2", `<option value="day"`, "overloaded &lt;now&gt;")
	if body := s.get("list?status=503&queue=nightly&owner=nightly&signature=1:aaaaaaaaaaaa&state=dead").Body.String(); !strings.Contains(body, "doc-1") || strings.Contains(body, "doc-2") {
		t.Error("the list is not filtered")
	}
	wants(t, s.get("list?state=quarantined"), 200, "No letter matches")
	wants(t, s.get("list?state=gone"), 400, "no such state")
	wants(t, s.get("list?status=x"), 400, "number")
	wants(t, s.get("list?after=x"), 400, "not complete")
	wants(t, s.get("item?id="+id), 200, "doc-1", "the payload", "a.json", "up-1", "4 in the last failure", "about 70", "Accept", "https://api.example/v1")
	wants(t, s.get("item?id=none"), 404, "No such letter")
	wants(t, s.get("item"), 404)
	wants(t, s.get("payload?id=none"), 404)
	wants(t, s.get("style.css"), 200, "prefers-color-scheme")
	wants(t, s.get("nothing"), 404)
	wants(t, s.get("healthz"), 200, "ok: 2 unresolved")

	w := s.get("payload?id=" + id)
	wants(t, w, 200, "the payload")
	if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="payload-`+id+`.bin"` || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the payload comes as %s, %s", got, w.Header().Get("Content-Type"))
	}
	wants(t, newSite(t, inspect.Config{}).get(""), 200, "Dead letters", "No letter is unresolved")
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{})
	id := s.put(deadletter.Record{ItemID: "a", Payload: []byte("p")})
	for _, path := range []string{"", "list", "item?id=" + id, "item?id=x", "payload?id=" + id, "style.css", "metrics", "healthz", "nothing"} {
		h := s.get(path).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff",
			"Cache-Control":           "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%q: %s is %q", path, name, got)
			}
		}
	}
	// The policy would block what stands in the page itself.
	for _, path := range []string{"", "list", "item?id=" + id} {
		body := s.get(path).Body.String()
		if m := regexp.MustCompile(`(?i)<script|<style|\sstyle=|\son[a-z]+=|javascript:|(src|href)="(https?:)?//`).FindString(body); m != "" {
			t.Errorf("%q holds %q", path, m)
		}
	}
}

var nextPage = regexp.MustCompile(`href="(list\?[^"]*after=[^"]*)" rel="next"`)

// No letter is beyond reach (hibiken/asynq#803).
func TestPaging(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{})
	var want []string
	for i := range 120 {
		r := deadletter.Record{ItemID: fmt.Sprintf("doc-%03d", i), Owner: "a&b", LastFailedAt: s.clk.Now().Add(time.Duration(i/7) * time.Second)}
		s.put(r)
		want = append(want, r.ItemID)
	}
	s.put(deadletter.Record{ItemID: "other"})
	var got []string
	item := regexp.MustCompile(`<bdi>(doc-\d+|other)</bdi>`)
	sizes := []int{}
	for path := "list?owner=" + url.QueryEscape("a&b"); path != ""; {
		body := s.get(path).Body.String()
		found := item.FindAllStringSubmatch(body, -1)
		for _, m := range found {
			got = append(got, m[1])
		}
		sizes = append(sizes, len(found))
		path = ""
		if m := nextPage.FindStringSubmatch(body); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(sizes, []int{50, 50, 20}); diff != "" {
		t.Error(diff)
	}
}

const evil = "<script>alert(1)</script>\u202e\"'><img src=x onerror=alert(1)>\x00\x1b[31m\xff</title></pre>{{.}}"

func hostile() deadletter.Record {
	return deadletter.Record{
		Queue: evil, ItemID: evil + strings.Repeat("long", 5000), RunID: evil, Owner: evil, Err: evil, Signature: evil, SignatureText: evil, ErrType: evil,
		Labels: map[string]string{evil: evil}, Header: http.Header{evil: {evil}}, Method: evil, URL: "javascript:" + evil, UpstreamRequestID: evil,
		Payload: []byte(strings.Repeat(evil, 1<<20/len(evil))), Status: 500,
	}
}

// What letters hold is shown as text on every page (HangfireIO/Hangfire#1441).
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{AllowActions: func(*http.Request) bool { return true }})
	r := hostile()
	s.put(r)
	id := ""
	for kept, err := range s.store.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		id = kept.ID // made of the valid part of the names
	}
	paths := []string{"", "list", "item?id=" + id, "list?queue=" + url.QueryEscape(evil), "list?owner=" + url.QueryEscape(evil), "list?state=" + url.QueryEscape(evil), "item?id=" + url.QueryEscape(evil)}
	for _, path := range paths {
		w := s.get(path)
		// A form's field is apart from the text around it, and has to hold what
		// is looked for.
		body := fieldValue.ReplaceAllString(w.Body.String(), "")
		if m := regexp.MustCompile(`<script|<img|href="javascript|\x00|\x1b|\x{202e}`).FindString(body); m != "" {
			t.Errorf("%.20q holds %q", path, m)
		}
		if strings.ToValidUTF8(body, "") != body {
			t.Errorf("%.20q is no UTF-8", path)
		}
		if len(body) > 200<<10 {
			t.Errorf("%.20q has %d bytes", path, len(body))
		}
	}
	wants(t, s.get("item?id="+id), 200, `\u202e`, "&lt;script&gt;", "{{.}}")
	if got := s.get("payload?id=" + id).Body.String(); got != string(r.Payload) {
		t.Error("the payload is not what was sent")
	}
	// In the metrics a queue's name ends neither its label nor its line.
	for line := range strings.Lines(s.get("metrics").Body.String()) {
		if !strings.HasPrefix(line, "#") && !metricLine.MatchString(line) {
			t.Errorf("not a metric: %q", line)
		}
	}
}

var fieldValue = regexp.MustCompile(` value="[^"]*"`)

var metricLine = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? [-+0-9.eInfNa]+\n$`)

func TestMetrics(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	q, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store, MaxPayload: 10})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, inspect.Config{
		Store: store, Queues: []*deadletter.Queue{q},
		More: map[string]func() iter.Seq2[string, float64]{"retry": func() iter.Seq2[string, float64] {
			return func(yield func(string, float64) bool) { _ = yield("calls_per_done", 1.25) && yield("no name", 1) }
		}},
	})
	boom := errors.New("boom")
	for i := range 3 {
		_ = q.Do(deadletter.WithItem(t.Context(), fmt.Sprint(i)), []byte("p"), func(context.Context) error { return boom })
	}
	_ = q.Do(deadletter.WithItem(t.Context(), "big"), []byte("too large to keep"), func(context.Context) error { return boom })
	s.clk.Set(time.Now().Add(time.Hour))
	for _, v := range []deadletter.Verb{deadletter.Ack, deadletter.Ack, deadletter.Quarantine} {
		s.h.Replayed(deadletter.Result{Verb: v})
	}
	s.h.Replayed(deadletter.Result{Verb: deadletter.Ack, Kept: deadletter.ErrClaimLost})
	w := s.get("metrics")
	wants(
		t, w, 200,
		"# TYPE deadletter_items gauge\n", `deadletter_items{queue="nightly",state="dead"} 3`+"\n", `deadletter_items{queue="nightly",state="acked"} 0`+"\n",
		"deadletter_oldest_age_seconds 36", "deadletter_quarantined 0\n", "deadletter_journal_bytes 0\n", "deadletter_corrupt_lines 0\n",
		`deadletter_put_total{queue="nightly"} 4`+"\n", `deadletter_put_errors_total{queue="nightly"} 1`+"\n", `deadletter_lost_total{queue="nightly"} 1`+"\n",
		`deadletter_replays_total{outcome="ack"} 2`+"\n", `deadletter_replays_total{outcome="quarantine"} 1`+"\n", `deadletter_replays_total{outcome="lost"} 1`+"\n",
		"retry_calls_per_done 1.25\n",
	)
	if strings.Contains(w.Body.String(), "no name") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%s\n%s", w.Header().Get("Content-Type"), w.Body)
	}
}

// broken is a store that cannot be read.
type broken struct{ deadletter.Reader }

var errDisk = errors.New("input/output error")

func (broken) Stats(context.Context, deadletter.Filter) (deadletter.Summary, error) {
	return deadletter.Summary{}, errDisk
}

func (broken) Get(context.Context, string) (deadletter.Record, error) {
	return deadletter.Record{}, errDisk
}

func TestBrokenStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{Store: broken{}})
	for path, code := range map[string]int{"": 500, "list": 500, "item?id=a": 500, "payload?id=a": 500, "metrics": 500, "healthz": 503} {
		if w := s.get(path); w.Code != code {
			t.Errorf("%q: status %d, want %d", path, w.Code, code)
		}
	}
}

func TestNewReportsEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := inspect.New(inspect.Config{
		AllowActions: func(*http.Request) bool { return true }, Queues: []*deadletter.Queue{nil},
		More: map[string]func() iter.Seq2[string, float64]{"a-b": nil},
	})
	for _, field := range []string{"Store", "AllowActions", "Queues", "More"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	var (
		store *deadletter.Memory
		clk   *clock.Mock
	)
	_, err = inspect.New(inspect.Config{Store: store, Clock: clk})
	for _, field := range []string{"Store", "*clock.Mock"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func ExampleNew() {
	store := deadletter.NewMemory()
	_ = store.Put(context.Background(), deadletter.Record{Queue: "nightly", ItemID: "doc-1", Signature: "1:0a1b2c3d4e5f", SignatureText: "503 overloaded"})
	h, err := inspect.New(inspect.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/letters/", http.StripPrefix("/letters", h))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/letters/healthz", nil))
	text, _ := io.ReadAll(w.Result().Body)
	fmt.Print(w.Code, " ", string(text))
	// Output: 200 ok: 1 unresolved, 0 damaged lines
}
