package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// HTTPSender sends letters as the requests they were; its Send method is a
// [Send]. Give it the client of the batch, with the same chain of transports:
// then the same breaker, budget and pacer decide. It waits as long as they and the
// context let it. It is safe for concurrent use if its functions are.
type HTTPSender struct {
	Client *http.Client // nil = http.DefaultClient

	// Authorize adds credentials, which no record holds, to a request about to
	// be sent. Headers and the query may be changed. nil = the client does it.
	Authorize func(*http.Request) error

	// Accept decides whether a good answer ends the letter, and stores the
	// result: nil acks the letter next, an error is its failure. body is the
	// whole answer; resp.Body has been read. nil = every good answer does.
	Accept func(ctx context.Context, r Record, resp *http.Response, body []byte) error

	MaxAnswer int64 // largest answer in bytes; 0 = 64 MiB
	Clock     Clock // what wait hints count from; nil = real time
}

// noRequest says that a letter holds no request. It ends the replay like a
// refusal: letters of the function form need a Send of their own, and should
// not be counted as replayed.
type noRequest struct{ id string }

func (e noRequest) Error() string {
	return "deadletter: letter " + e.id + " holds no HTTP request: it needs a Send of its own, one of a batch batch.Replay"
}
func (noRequest) RefusedBy() string { return "sender" }
func (noRequest) NotSent() bool     { return true }

// redacted is the value of a query parameter that was not kept.
const redacted = "REDACTED"

// Send sends r and returns nil when the answer is a success by the rules in
// the package guide and Accept, if there is one, has taken it.
func (s HTTPSender) Send(ctx context.Context, r Record) error {
	if r.Method == "" || r.URL == "" {
		return noRequest{r.ID}
	}
	req, err := s.request(ctx, r)
	if err != nil {
		return err
	}
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		// What the client adds, method and URL, the letter knows; without it the
		// failure has the signature that the transport's own letter would have.
		var added *url.Error
		if errors.As(err, &added) && added.Err != nil {
			err = added.Err
		}
		return discreet(err, req)
	}
	defer resp.Body.Close()
	var told error
	if b, ok := resp.Body.(interface{ Err() error }); ok {
		told = b.Err()
	}
	box := call.From(ctx)
	now := orReal(s.Clock).Now()
	view := modelapi.Watch(box, resp, now)
	limit := s.MaxAnswer
	if limit == 0 {
		limit = 64 << 20
	}
	body, err := atMost(resp.Body, limit)
	v := view.Verdict()
	v.Status = resp.StatusCode
	switch {
	case told != nil:
		return discreet(told, req)
	case failed(v), resp.StatusCode < 200, resp.StatusCode > 299: // a redirect that was not followed is no result
		return discreet(newAnswerError(v, now), req)
	case err != nil:
		return err
	}
	if s.Accept != nil {
		return s.Accept(ctx, r, resp, body)
	}
	return nil
}

func (s HTTPSender) request(ctx context.Context, r Record) (*http.Request, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, errors.New("deadletter: the letter's URL cannot be parsed")
	}
	u.RawQuery = withoutRedacted(u.RawQuery)
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Payload))
	if err != nil {
		return nil, fmt.Errorf("deadletter: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		k := http.CanonicalHeaderKey(name)
		req.Header[k] = append(req.Header[k], r.Header[name]...)
	}
	if req.Header.Get("Idempotency-Key") == "" {
		req.Header.Set("Idempotency-Key", r.ID)
	}
	if s.Authorize != nil {
		if err := s.Authorize(req); err != nil {
			return nil, fmt.Errorf("deadletter: authorize: %w", err)
		}
	}
	return req, nil
}

// withoutRedacted takes the parameters out whose value was a secret.
func withoutRedacted(query string) string {
	var keep []string
	for p := range strings.SplitSeq(query, "&") {
		if _, v, ok := strings.Cut(p, "="); p != "" && !(ok && v == redacted) {
			keep = append(keep, p)
		}
	}
	return strings.Join(keep, "&")
}
