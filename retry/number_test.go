package retry_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

// seen answers by a script and notes the number that each attempt bears.
type seen struct {
	numbers  []int
	statuses []int
}

func (s *seen) RoundTrip(req *http.Request) (*http.Response, error) {
	s.numbers = append(s.numbers, call.From(req.Context()).Attempt.N)
	status := s.statuses[0]
	s.statuses = s.statuses[1:]
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{}}, nil
}

// An attempt is counted from the begin of its call: the second call of an item
// is a first attempt, or it could spend what is kept back for later ones.
func TestAttemptsAreNumberedByCall(t *testing.T) {
	t.Parallel()
	base := &seen{statuses: []int{200, 503, 200, 200}}
	rt := retry.NewTransport(base, mustNew(t, noWait(retry.Config{})))
	item := call.With(t.Context())
	item.NewItem("book", nil)
	for range 3 {
		req, err := http.NewRequestWithContext(item, http.MethodGet, "http://upstream.test/", nil)
		noError(t, err)
		resp, err := rt.RoundTrip(req)
		noError(t, err)
		noError(t, resp.Body.Close())
	}
	if want := []int{1, 1, 2, 1}; !slices.Equal(base.numbers, want) {
		t.Errorf("numbers %v, want %v", base.numbers, want)
	}
	equal(t, "calls of the item", item.Item.Calls(), 4)
}
