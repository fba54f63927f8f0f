package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// 32 workers on one key with a known limit and a day's budget: no call is
// refused by the upstream, what the budget says is what the upstream bills, and
// both stop at the soft cap.
func TestNight(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model, err := fakemodel.New(fakemodel.Config{Limits: fakemodel.Limits{RPM: 600, Burst: 2}, Latency: slowModel})
				if err != nil {
					t.Fatal(err)
				}
				const limit = 16_000
				day := mustNew(t, budget.Config{Limit: limit, Window: forever{}})
				pace := mustPacer(t, budget.PacerConfig{Requests: 600})
				rt := budget.NewPacedTransport(budget.NewTransport(model, day), pace)
				var refused, next atomic.Int64
				var wg sync.WaitGroup
				for range 32 {
					wg.Go(func() {
						for k := next.Add(1); k <= 1500; k = next.Add(1) {
							for {
								err := summarise(t.Context(), rt, fmt.Sprint("item ", k), stream)
								if err == nil {
									break
								}
								refused.Add(1)
								var no *budget.RefusedError
								if !errors.As(err, &no) {
									t.Error(err)
									return
								}
								// What others have reserved may come back.
								if _, final := no.RetryAt(); final {
									return
								}
								if err := no.Await(t.Context()); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
				st := model.Stats()
				equal(t, "refused by the upstream", st.Rejected, 0)
				equal(t, "spent as billed", spent(t, day), st.Tokens)
				if got := spent(t, day); got > limit*85/100 || got < limit*85/100-200 {
					t.Errorf("spent %d, want up to the soft cap of %d", got, limit*85/100)
				}
				if refused.Load() == 0 || pace.Stats().Unsent != refused.Load() {
					t.Errorf("%d refused by the budget, %d turns given back", refused.Load(), pace.Stats().Unsent)
				}
				equal(t, "outstanding", day.Stats().Outstanding, int64(0))
			})
		})
	}
}

func summarise(ctx context.Context, rt http.RoundTripper, prompt string, stream bool) error {
	body := fmt.Sprintf(`{"model":"fake-1","max_tokens":20,"stream":%v,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%q}]}`, stream, prompt)
	if !stream {
		body = strings.Replace(body, `"stream_options":{"include_usage":true},`, "", 1)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return errors.Join(err, resp.Body.Close())
}
