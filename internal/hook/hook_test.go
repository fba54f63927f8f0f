package hook_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/hook"
)

// A hook that tells, panics and ends its goroutine: every event comes once, in
// order, and none inside another.
func TestQueueKeepsOrder(t *testing.T) {
	t.Parallel()
	var got []int
	var lost []string
	inside := false
	var q hook.Queue[int]
	q.Lost = func(text string) { lost = append(lost, text) }
	q.Hook = func(n int) {
		if inside {
			t.Error("a hook within a hook")
		}
		inside = true
		defer func() { inside = false }()
		got = append(got, n)
		switch n {
		case 1:
			q.Tell(4)
		case 2:
			panic(errors.New("no key sk-abcdefghijklmnopqrstuvwxyz0123"))
		case 3:
			runtime.Goexit()
		}
	}
	for n := range 3 {
		q.Add(n + 1)
	}
	if !q.Waits() {
		t.Error("nothing waits for Run")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Run()
		t.Error("Run came back from a hook that ended its goroutine")
	}()
	<-done
	q.Tell(5)
	if q.Waits() {
		t.Error("something waits after Tell")
	}
	if d := cmp.Diff(got, []int{1, 2, 3, 4, 5}); d != "" {
		t.Errorf("events (-got +want):\n%s", d)
	}
	if len(lost) != 2 || !strings.Contains(lost[0], "no key") || strings.Contains(lost[0], "abcdef") || lost[1] != "it ended its goroutine" {
		t.Errorf("lost: %q", lost)
	}
}

// Many tell at once: all events come, one at a time.
func TestQueueOfMany(t *testing.T) {
	t.Parallel()
	const callers, each = 32, 100
	busy, n := false, 0
	var q hook.Queue[int]
	q.Hook = func(int) {
		if busy {
			t.Error("two hooks at once")
		}
		busy = true
		n++ // the race detector looks at both
		busy = false
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range each {
				q.Tell(i)
			}
		})
	}
	wg.Wait()
	if n != callers*each {
		t.Errorf("%d events told, want %d", n, callers*each)
	}
}

// Without a hook nothing is kept, and without Lost a panic is only survived.
func TestQueueOfNobody(t *testing.T) {
	t.Parallel()
	var q hook.Queue[string]
	q.Tell("lost")
	told := 0
	q.Hook = func(string) { told++; panic("!") }
	q.Run()
	q.Tell("told")
	if told != 1 {
		t.Errorf("told %d times, want 1", told)
	}
}
