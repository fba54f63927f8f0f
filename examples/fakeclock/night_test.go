package fakeclock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/fixture"
	"github.com/nightfuse/nightfuse/deadletter/fixture/nighttest"
	"github.com/nightfuse/nightfuse/retry"
)

const documents = 30

// summarise is a loop as programs have it, around a client with guards over rt.
// It says what became of each document.
func summarise(ctx context.Context, rt http.RoundTripper) (n nighttest.Night, err error) {
	day, err1 := budget.New(budget.Config{Limit: 100_000})
	again, err2 := retry.New(retry.Config{})
	if err := errors.Join(err1, err2); err != nil {
		return n, err
	}
	client := &http.Client{Transport: retry.NewTransport(budget.NewTransport(rt, day), again)}
	results := map[string][]byte{}
	for i := range documents {
		id := fmt.Sprint("doc-", i)
		body := fmt.Sprintf(`{"max_tokens":20,"messages":[{"role":"user","content":%q}]}`, id)
		req, err := http.NewRequestWithContext(deadletter.WithItem(ctx, id), http.MethodPost, "https://api.example/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return n, err
		}
		var answer []byte
		resp, err := client.Do(req)
		if err == nil {
			answer, err = io.ReadAll(resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			n.Dead = append(n.Dead, id)
			continue
		}
		n.Done, results[id] = append(n.Done, id), answer
	}
	status, err := day.Status(ctx)
	n.Total, n.Calls, n.MaxPerItem = documents, int(again.Stats().Calls), 4
	n.Spent, n.SoftCap = status.Spent, status.SoftCap
	n.Results = func(yield func(string, []byte) bool) {
		for id, b := range results {
			if !yield(id, b) {
				return
			}
		}
	}
	return n, err
}

// upstream refuses one document, and takes half a minute for each of the others.
type upstream struct{}

func (upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	time.Sleep(30 * time.Second) // on the bubble's clock
	status, text := http.StatusOK, `{"choices":[{"message":{"content":"Two refunds."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`
	if strings.Contains(string(body), `"doc-7"`) {
		status, text = http.StatusBadRequest, `{"error":{"code":"content_filter","message":"This prompt is refused."}}`
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: req,
	}, nil
}

// A night is recorded once, over the real upstream, and kept in testdata. From
// then on it takes no time: the waits of the recording, and those that the storm
// adds, pass on the clock of the bubble, which goes on when all are asleep.
func TestRecordedNight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tape bytes.Buffer
		recorder, err := fixture.NewRecorder(fixture.RecorderConfig{Base: upstream{}, W: &tape})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := summarise(t.Context(), recorder); err != nil {
			t.Fatal(err)
		}

		replayer, err := fixture.NewReplayer(fixture.ReplayerConfig{From: &tape})
		if err != nil {
			t.Fatal(err)
		}
		nighttest.SurvivesEveryNth(t, replayer, 3, http.StatusTooManyRequests, func(rt http.RoundTripper) nighttest.Night {
			night, err := summarise(t.Context(), rt)
			if err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(night.Dead); got != "[doc-7]" {
				t.Errorf("dead are %s, want the document that is refused", got)
			}
			return night
		})
		nighttest.Played(t, replayer)
		if left := replayer.Unused(); len(left) != 0 {
			t.Errorf("%d recorded calls were not made", len(left))
		}
	})
}
