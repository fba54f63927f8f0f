package modelapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

func TestHead(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 1024)
	resp := response(500, "Content-Type: text/plain\n", body, 1000)
	v := modelapi.Watch(nil, resp, noon)
	if len(v.Head()) != 0 {
		t.Error("seen before it was read")
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 10))
	early := v.Head()
	_, _ = io.ReadAll(resp.Body)
	if string(early) != body[:10] || string(v.Head()) != body[:8<<10] {
		t.Errorf("%q, then %d bytes", early, len(v.Head()))
	}
	resp = response(200, jsonType, good, 0)
	v = modelapi.Watch(nil, resp, noon)
	_, _ = io.ReadAll(resp.Body)
	if len(v.Head()) != 0 {
		t.Error("a good answer's head is kept")
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"` + strings.Repeat("x", 5000) + `","code":"insufficient_quota"}}`
	for _, limit := range []int{-1, 0, 1, 100, len(body) - 1, len(body), len(body) + 1, 1 << 20} {
		for _, chunk := range chunks {
			for _, length := range []int64{-1, int64(len(body))} {
				t.Run(fmt.Sprintf("%d of %d in chunks of %d", limit, length, chunk), func(t *testing.T) {
					t.Parallel()
					resp := response(429, jsonType, body, chunk)
					resp.ContentLength = length
					v := modelapi.Watch(nil, resp, noon)
					told := 0
					v.OnEnd(func(modelapi.Verdict) { told++ })
					data, whole, err := v.Hold(limit, time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					fits := limit >= len(body)
					if whole != fits || string(data) != body[:min(max(limit, 0), len(body))] {
						t.Errorf("held %d bytes, whole %v", len(data), whole)
					}
					want := modelapi.RateLimited
					if limit >= len(body)-1 {
						want = modelapi.Quota
					}
					if c := v.Verdict().Class; c != want || (told == 1) != fits {
						t.Errorf("after Hold %v, end told %d times", c, told)
					}
					if again, _, _ := v.Hold(limit, time.Minute); !bytes.Equal(again, data) {
						t.Error("a second Hold returns other bytes")
					}
					got, err := io.ReadAll(resp.Body)
					if err != nil || string(got) != body {
						t.Errorf("the caller reads %d bytes, %v", len(got), err)
					}
					_ = resp.Body.Close()
					if d := v.Verdict(); d.Class != modelapi.Quota || told != 1 {
						t.Errorf("at the end %v, told %d times", d.Class, told)
					}
				})
			}
		}
	}
}

func TestHoldAgainWithALargerLimit(t *testing.T) {
	t.Parallel()
	resp := response(200, jsonType, good, 7)
	v := modelapi.Watch(nil, resp, noon)
	small, whole, _ := v.Hold(10, time.Minute)
	if whole || string(small) != good[:10] {
		t.Errorf("%q %v", small, whole)
	}
	all, whole, _ := v.Hold(1000, time.Minute)
	if !whole || string(all) != good || string(small) != good[:10] {
		t.Errorf("%q %v", all, whole)
	}
	if got, _ := io.ReadAll(resp.Body); string(got) != good {
		t.Errorf("%q", got)
	}
}

func TestHoldOfAStreamReadsNothing(t *testing.T) {
	t.Parallel()
	src := &chunked{data: []byte("data: [DONE]\n\n")}
	resp := response(200, sseType, "", 0)
	resp.Body = src
	if data, whole, err := modelapi.Watch(nil, resp, noon).Hold(100, time.Minute); data != nil || whole || err != nil {
		t.Error(data, whole, err)
	}
	if len(src.data) == 0 {
		t.Error("the stream was read")
	}
}

func TestHoldGivesTheReadErrorTwice(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	resp := response(200, jsonType, "", 0)
	resp.Body = &chunked{data: []byte(good[:20]), err: reset}
	v := modelapi.Watch(nil, resp, noon)
	data, whole, err := v.Hold(1000, time.Minute)
	if string(data) != good[:20] || whole || err != reset {
		t.Errorf("%q %v %v", data, whole, err)
	}
	if d := v.Verdict(); d.Err != reset || d.Class != modelapi.Truncated {
		t.Errorf("%+v", d)
	}
	got, err := io.ReadAll(resp.Body)
	if string(got) != good[:20] || err != reset {
		t.Errorf("%q %v", got, err)
	}
}

func TestHoldAfterAForeignReader(t *testing.T) {
	t.Parallel()
	// A wrapper that logs bodies has read ours and replaced it.
	box := attempt()
	resp := response(400, jsonType, good, 0)
	modelapi.Watch(box, resp, noon)
	data, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	v := modelapi.Watch(box, resp, noon)
	held, whole, err := v.Hold(1000, time.Minute)
	if string(held) != good || !whole || err != nil {
		t.Errorf("%q %v %v", held, whole, err)
	}
	if got, _ := io.ReadAll(resp.Body); string(got) != good {
		t.Errorf("%q", got)
	}
}

// slow is a body that gives its chunks when they come. A Close ends its reads.
func slow(t *testing.T, status int) (*http.Response, *io.PipeWriter) {
	t.Helper()
	resp := response(status, jsonType, "", 0)
	r, w := io.Pipe()
	resp.Body, resp.ContentLength = r, -1
	return resp, w
}

// A Hold ends in time; what comes later passes, and is seen, as if there had
// been none.
func TestHoldOfASlowBody(t *testing.T) {
	t.Parallel()
	const head, rest = `{"error":{"code":"insuff`, `icient_quota"}}`
	synctest.Test(t, func(t *testing.T) {
		resp, w := slow(t, 429)
		v := modelapi.Watch(nil, resp, noon)
		told := 0
		v.OnEnd(func(modelapi.Verdict) { told++ })
		go func() { _, _ = io.WriteString(w, head) }()
		for i := range 3 {
			start := time.Now()
			data, whole, err := v.Hold(1000, 2*time.Second)
			if string(data) != head || whole || err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("Hold %d: %q %v %v after %v", i, data, whole, err, time.Since(start))
			}
		}
		go func() {
			time.Sleep(time.Minute)
			_, _ = io.WriteString(w, rest)
			_ = w.Close()
		}()
		if got, err := io.ReadAll(resp.Body); string(got) != head+rest || err != nil {
			t.Errorf("%q %v", got, err)
		}
		if d := v.Verdict(); d.Class != modelapi.Quota || told != 1 {
			t.Errorf("%v, told %d times", d.Class, told)
		}
	})
}

// breaking is a body whose Close lets nothing overtake it.
type breaking struct{ io.ReadCloser }

func (b breaking) Close() error {
	err := b.ReadCloser.Close()
	synctest.Wait()
	return err
}

// A Close ends the read that a Hold has left behind, and is what the answer
// ended with.
func TestCloseAfterAHoldOfASlowBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine stays
		resp, _ := slow(t, 200)
		resp.Body = breaking{resp.Body}
		v := modelapi.Watch(nil, resp, noon)
		if data, whole, err := v.Hold(1000, time.Second); len(data) > 0 || whole || err != nil {
			t.Errorf("%q %v %v", data, whole, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if d := v.Verdict(); d.Err != nil {
			t.Errorf("a body that was closed ended by %v", d.Err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("a Read after Close: %v", err)
		}
	})
}

// A panic behind a Hold is the panic of whoever waits for the bytes.
func TestPanicBehindAHold(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			resp, w := slow(t, 400)
			v := modelapi.Watch(nil, resp, noon)
			v.OnEnd(func(modelapi.Verdict) { panic("hook") })
			go func() {
				if late {
					time.Sleep(time.Minute)
				}
				_ = w.Close()
			}()
			defer func() {
				if p := recover(); p != "hook" {
					t.Errorf("late %v: recovered %v", late, p)
				}
			}()
			_, _, _ = v.Hold(1000, time.Second)
			if !late {
				t.Error("Hold has swallowed a panic")
			}
			_, _ = resp.Body.Read(make([]byte, 1))
			t.Error("Read has swallowed a panic")
		})
	}
}
