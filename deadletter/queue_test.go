package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

// watchful is a store that notes the contexts it is used with.
type watchful struct {
	deadletter.Store
	errs  []error
	bound bool // all had a deadline to come
}

func (w *watchful) see(ctx context.Context) {
	at, ok := ctx.Deadline()
	w.errs, w.bound = append(w.errs, ctx.Err()), ok && time.Until(at) > 0 && (w.bound || len(w.errs) == 0)
}

func (w *watchful) Put(ctx context.Context, r deadletter.Record) error {
	w.see(ctx)
	return w.Store.Put(ctx, r)
}

func (w *watchful) Get(ctx context.Context, id string) (deadletter.Record, error) {
	w.see(ctx)
	return w.Store.Get(ctx, id)
}

// The usual reason for a dead letter is a context that has ended, and it keeps
// no letter from being stored, whichever way it comes
// (ThreeDotsLabs/watermill#636).
func TestPutOutlivesTheRequest(t *testing.T) {
	t.Parallel()
	past := func() (context.Context, context.CancelFunc) {
		return context.WithDeadline(deadletter.WithItem(t.Context(), "item"), time.Unix(0, 0))
	}
	cancelled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(deadletter.WithItem(t.Context(), "item"))
		cancel()
		return ctx, cancel
	}
	do := func(ctx context.Context, q *deadletter.Queue) error {
		return q.Do(ctx, []byte("p"), func(ctx context.Context) error { return context.Cause(ctx) })
	}
	roundTrip := func(ctx context.Context, q *deadletter.Queue) error {
		rt := deadletter.NewTransport(rounds(func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() }), q)
		_, _, err := send(rt, request(t, ctx, "", strings.NewReader("p")))
		return err
	}
	fail := func(ctx context.Context, q *deadletter.Queue) error { return q.Fail(ctx, []byte("p"), ctx.Err()) }
	put := func(ctx context.Context, q *deadletter.Queue) error {
		return q.Put(ctx, deadletter.Record{ItemID: "item", Payload: []byte("p")})
	}
	for _, tt := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		bury func(context.Context, *deadletter.Queue) error
		want error // of bury
	}{
		{"Do after its deadline", past, do, context.DeadlineExceeded},
		{"RoundTrip after its deadline", past, roundTrip, context.DeadlineExceeded},
		{"Fail after a deadline", past, fail, nil},
		{"Fail after a cancel", cancelled, fail, nil},
		{"Put after a deadline", past, put, nil},
		{"Put after a cancel", cancelled, put, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := &watchful{Store: deadletter.NewMemory()}
			q := newQueue(t, deadletter.Config{Store: store, OnDead: func(deadletter.Record) {}})
			ctx, cancel := tt.ctx()
			defer cancel()
			if err := tt.bury(ctx, q); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(store.errs, []error{nil, nil}); diff != "" || !store.bound {
				t.Errorf("the store's contexts have a bound: %v; they had ended: %s", store.bound, diff)
			}
			if r, err := store.Store.Get(t.Context(), deadletter.ID("q", "item")); err != nil || string(r.Payload) != "p" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestOneLetterPerItem(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	store, err := deadletter.StoreConfig{Clock: mock}.Memory()
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(t, deadletter.Config{Store: store, Clock: mock})
	boom := errors.New("boom")
	first := mock.Now()
	for range 3 {
		_ = q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(context.Context) error { return boom })
		mock.Add(time.Hour)
	}
	r, err := q.Get(t.Context(), "item")
	if err != nil {
		t.Fatal(err)
	}
	if r.Failures != 3 || !r.FirstFailedAt.Equal(first) || !r.LastFailedAt.Equal(first.Add(2*time.Hour)) || len(r.History) != 3 {
		t.Errorf("%+v", r)
	}
}

func TestItemsWithoutAName(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	q := newQueue(t, deadletter.Config{Store: store})
	rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return answer(400, ""), nil }), q)
	for _, p := range []string{"one", "two", "one"} {
		_, _, _ = send(rt, request(t, t.Context(), "", strings.NewReader(p)))
	}
	if n := summary(t, store).Letters(); n != 2 {
		t.Errorf("%d letters, want one per payload", n)
	}
	boom := errors.New("boom")
	for range 2 {
		_ = q.Do(t.Context(), nil, func(context.Context) error { return boom })
	}
	if n := summary(t, store).Letters(); n != 4 {
		t.Errorf("%d letters: items that nothing tells apart were merged", n)
	}
}

func TestUnderARunnerTheTransportStepsAside(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return answer(400, ""), nil }), q)
	box := call.With(t.Context())
	box.Recorded = true
	if status, _, err := send(rt, request(t, box, "", strings.NewReader("p"))); status != 400 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	_ = q.Do(box, nil, func(context.Context) error { return errFull })
	if diff := cmp.Diff(q.Stats(), deadletter.Stats{Name: "q"}); diff != "" {
		t.Error(diff)
	}
}

// The function form around a client that has the same queue is one failure.
func TestQueueMetTwice(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return answer(400, ""), nil }), q)
	err := q.Do(deadletter.WithItem(t.Context(), "item"), []byte("outer"), func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example/", strings.NewReader("inner"))
		if err != nil {
			return err
		}
		if status, _, err := send(rt, req); err != nil || status != 400 {
			return err
		}
		return errors.New("status 400")
	})
	r, gerr := q.Get(t.Context(), "item")
	if err == nil || gerr != nil || r.Failures != 1 || string(r.Payload) != "outer" {
		t.Errorf("%v: %+v, %v", err, r, gerr)
	}
}

func TestPanicIsAFailureAndGoesOn(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { panic("base") }), q)
	for item, fn := range map[string]func(){
		"fn": func() {
			_ = q.Do(deadletter.WithItem(t.Context(), "fn"), []byte("p"), func(context.Context) error { panic("base") })
		},
		"rt": func() { _, _, _ = send(rt, request(t, t.Context(), "rt", strings.NewReader("p"))) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "base" {
					t.Errorf("%s: recovered %v", item, p)
				}
			}()
			fn()
		}()
		if r, err := q.Get(t.Context(), item); err != nil || !strings.Contains(r.Err, "panic") {
			t.Errorf("%s: %+v, %v", item, r, err)
		}
	}
}

func TestResolveOnSuccess(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		store := deadletter.NewMemory()
		q := newQueue(t, deadletter.Config{Store: store, ResolveOnSuccess: on})
		status := 500
		rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return answer(status, goodAnswer), nil }), q)
		_, _, _ = send(rt, request(t, t.Context(), "item", strings.NewReader("p")))
		status = 200
		if _, _, err := send(rt, request(t, t.Context(), "item", strings.NewReader("p"))); err != nil {
			t.Fatal(err)
		}
		want := deadletter.Dead
		if on {
			want = deadletter.Acked
		}
		if r, err := q.Get(t.Context(), "item"); err != nil || r.State != want {
			t.Errorf("ResolveOnSuccess %v: state %s, %v", on, r.State, err)
		}
	}
}

// A redirect is no result. The client follows it, or the caller sees it; neither
// settles the letter of an earlier failure.
func TestRedirectResolvesNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 304, 307} {
		q := newQueue(t, deadletter.Config{ResolveOnSuccess: true})
		now := 500
		rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return answer(now, ""), nil }), q)
		_, _, _ = send(rt, request(t, t.Context(), "item", strings.NewReader("p")))
		now = status
		if _, _, err := send(rt, request(t, t.Context(), "item", strings.NewReader("p"))); err != nil {
			t.Fatal(err)
		}
		if r, err := q.Get(t.Context(), "item"); err != nil || r.State != deadletter.Dead {
			t.Errorf("%d: state %s, %v", status, r.State, err)
		}
		if st := q.Stats(); st.Done != 0 || st.Items != 1 {
			t.Errorf("%d: %d done of %d items", status, st.Done, st.Items)
		}
	}
}

func TestHooksAndRedact(t *testing.T) {
	t.Parallel()
	var dead []string
	q := newQueue(t, deadletter.Config{
		Redact: func(r *deadletter.Record) {
			r.Payload = bytes.ReplaceAll(r.Payload, []byte("secret"), []byte("******"))
			if r.ItemID == "bad" {
				panic("redact")
			}
		},
		OnDead: func(r deadletter.Record) { dead = append(dead, string(r.Payload)); panic("hook") },
	})
	payload := []byte("a secret")
	fail := func(item string) error {
		return q.Do(deadletter.WithItem(t.Context(), item), payload, func(context.Context) error { return errFull })
	}
	if err := fail("good"); !errors.Is(err, errFull) {
		t.Error(err)
	}
	var lost *deadletter.LostError
	if err := fail("bad"); !errors.As(err, &lost) {
		t.Errorf("%v: what could not be redacted was stored", err)
	}
	if diff := cmp.Diff(dead, []string{"a ******"}); diff != "" {
		t.Error(diff)
	}
	if string(payload) != "a secret" {
		t.Error("the caller's payload was changed")
	}
}

func TestNewReportsEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := deadletter.New(deadletter.Config{MaxPayload: -1, PutTimeout: -1})
	for _, field := range []string{"Name", "Store", "MaxPayload", "PutTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	_, err = deadletter.StoreConfig{MaxPayload: -1, Segment: 1, LockWait: -1}.Journal("")
	for _, field := range []string{"MaxPayload", "Segment", "LockWait", "directory"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// A nil pointer in a field is a field that somebody meant to set. It is told at
// once, not by a panic at the first letter.
func TestNilPointersAreTold(t *testing.T) {
	t.Parallel()
	var (
		journal *deadletter.Journal
		memory  *deadletter.Memory
		clk     *clock.Mock
	)
	_, ofQueue := deadletter.New(deadletter.Config{Name: "not UTF-8: \xff", Store: journal, Clock: clk})
	_, ofMemory := deadletter.StoreConfig{Clock: clk}.Memory()
	_, ofJournal := deadletter.StoreConfig{Clock: clk}.Journal(t.TempDir())
	_, ofReplay := deadletter.Replay(t.Context(), memory, succeed, deadletter.Options{Clock: clk})
	for _, tt := range []struct {
		err    error
		fields []string
	}{
		{ofQueue, []string{"Name", "Store", "*clock.Mock"}},
		{ofMemory, []string{"*clock.Mock"}},
		{ofJournal, []string{"*clock.Mock"}},
		{ofReplay, []string{"store", "*clock.Mock"}},
	} {
		for _, field := range tt.fields {
			if tt.err == nil || !strings.Contains(tt.err.Error(), field) {
				t.Errorf("%v does not name %s", tt.err, field)
			}
		}
	}
}

// A NUL stands between queue and item in a letter's id. Within a name it would
// make one letter of two queues' items, and the later would replace the earlier.
func TestQueueNameWithNUL(t *testing.T) {
	t.Parallel()
	if a, b := deadletter.ID("a\x00b", "c"), deadletter.ID("a", "b\x00c"); a != b {
		t.Errorf("ids %s and %s differ: then such a name may be allowed", a, b)
	}
	if _, err := deadletter.New(deadletter.Config{Name: "a\x00b", Store: deadletter.NewMemory()}); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a queue with a NUL in its name: %v", err)
	}
}

func TestTransportAroundNothing(t *testing.T) {
	t.Parallel()
	rt := deadletter.NewTransport(nil, nil)
	body := &closing{Reader: strings.NewReader("p")}
	if _, err := rt.RoundTrip(request(t, t.Context(), "", body)); err == nil || rt.Err() == nil || body.closed != 1 {
		t.Errorf("%v, %v, body closed %d times", err, rt.Err(), body.closed)
	}
}

func TestStatsShape(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	old := q.Stats()
	_ = q.Do(t.Context(), []byte("abc"), func(context.Context) error { return errFull })
	d := q.Stats().Sub(old)
	got := maps.Collect(d.All())
	if got["items"] != 1 || got["dead"] != 1 || got["bytes"] != 3 || len(got) != 11 {
		t.Errorf("%v", got)
	}
	if s := q.String(); !strings.Contains(s, `"dead":1`) || !strings.Contains(s, `"name":"q"`) {
		t.Error(s)
	}
}
