package retry_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// R07, T63: quota and billing codes are final on first sight.
func TestQuotaCodesAreFinal(t *testing.T) {
	t.Parallel()
	body := func(code string, pad int) string {
		return `{"error":{"type":"` + code + `","code":"` + code + `","message":"You exceeded"},"pad":"` + strings.Repeat("x", pad) + `"}`
	}
	for _, tc := range []struct {
		code  string
		pad   int
		calls int
	}{
		{"insufficient_quota", 0, 1},
		{"rate_limit_exceeded", 0, 4},
		{"insufficient_quota", 5 << 20, 1},
		{"rate_limit_exceeded", 5 << 20, 4},
	} {
		b := body(tc.code, tc.pad)
		sc := newScript(step{status: 429, header: "Content-Type: application/json", body: b})
		srv := serve(t, sc)
		r := mustNew(t, noWait(retry.Config{}))
		resp, err := client(t, r).Do(post(t, srv.URL, "{}"))
		equal(t, tc.code+": calls", sc.calls(), tc.calls)
		if tc.calls == 1 {
			noError(t, err)
			if got := readAll(t, resp); got != b {
				t.Errorf("%s: the caller reads %d bytes, want %d", tc.code, len(got), len(b))
			}
			equal(t, "failed", r.Stats().Failed, 1)
			continue
		}
		if e := asError(t, err); e.Code != tc.code {
			t.Errorf("code %q", e.Code)
		}
	}
}

// T79 hashicorp/go-retryablehttp#215: Classify reads the body, and so does the
// caller afterwards.
func TestClassifyReadsTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(step{status: 418, body: "wait 7"}, step{status: 418, body: "no use"})
		r := mustNew(t, retry.Config{Classify: func(req *http.Request, resp *http.Response, err error) retry.Decision {
			if req == nil || err != nil || resp == nil {
				t.Errorf("Classify(%v, %v, %v)", req, resp, err)
				return retry.Decision{}
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			if string(b) == "wait 7" {
				return retry.Decision{Action: retry.Again, Wait: 7 * time.Second}
			}
			return retry.Decision{Action: retry.GiveUp}
		}})
		start := time.Now()
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		equal(t, "body", readAll(t, resp), "no use")
		if d := time.Since(start); d < 7*time.Second {
			t.Errorf("waited %v", d)
		}
		equal(t, "bodies open", sc.leaked(), 0)
	})
}

func TestClassifyMayAcceptOrRefuse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		act   retry.Action
		step  step
		calls int
		bad   bool
	}{
		{"accept an empty answer", retry.Accept, step{status: 200, body: `{"choices":[]}`}, 1, false},
		{"no acceptance of a 503", retry.Accept, failWith(503), 4, true},
		{"refuse a good one", retry.Again, good, 4, true},
		{"give a good one up", retry.GiveUp, good, 1, true},
	} {
		sc := newScript(tc.step)
		r := mustNew(t, noWait(retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision {
			return retry.Decision{Action: tc.act}
		}}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		if resp != nil {
			_ = resp.Body.Close()
		}
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if (err != nil) != tc.bad {
			t.Errorf("%s: error %v", tc.name, err)
		}
		equal(t, tc.name+": bodies open", sc.leaked(), 0)
	}
}

const sse = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n"

const sseEnd = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// R17: an error object under 200 counts as what it stands for.
func TestAnErrorUnder200(t *testing.T) {
	t.Parallel()
	bad := func(code string) step {
		return step{status: 200, header: "Content-Type: application/json", body: `{"error":{"code":` + code + `,"message":"upstream said no"}}`}
	}
	sc := newScript(bad("429"), good)
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := client(t, r).Do(post(t, serve(t, sc).URL, "{}"))
	noError(t, err)
	equal(t, "body", readAll(t, resp), goodBody)
	equal(t, "calls", sc.calls(), 2)

	// In a choice, as aggregators have it.
	sc = newScript(step{status: 200, header: "Content-Type: application/json", body: `{"choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"provider disconnected"},"message":{"role":"assistant","content":""}}]}`}, good)
	resp, err = client(t, r).Do(post(t, serve(t, sc).URL, "{}"))
	noError(t, err)
	equal(t, "body", readAll(t, resp), goodBody)
	equal(t, "calls", sc.calls(), 2)

	sc = newScript(bad("400"))
	_, err = client(t, r).Do(post(t, serve(t, sc).URL, "{}"))
	e := asError(t, err)
	equal(t, "calls, status", []int{sc.calls(), e.Calls, e.Status}, []int{1, 1, 400})
	if !errors.Is(err, retry.ErrBody) {
		t.Errorf("error %v", err)
	}
}

// R18: an empty answer is a failure, tried once more.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		calls      int
		ok         bool
	}{
		{"choices []", `{"choices":[]}`, 2, false},
		{"choices missing", `{"id":"c1","object":"chat.completion","model":"m"}`, 2, false},
		{"no text", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null}}]}`, 2, false},
		{"white space", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"  \n"}}]}`, 2, false},
		{"a tool call", `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`, 1, true},
		{"a refusal", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null,"refusal":"I cannot"}}]}`, 1, false},
		{"truncated", `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"It so"}}]}`, 1, false},
		{"a placeholder", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"[No summary]"}}]}`, 2, false},
		{"dots", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"..."}}]}`, 2, false},
		{"an answer that speaks of one", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Returns null when no summary is there."}}]}`, 1, true},
		{"a class", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"none"}}]}`, 1, true},
		{"a good one", goodBody, 1, true},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: application/json", body: tc.body})
		r := mustNew(t, noWait(retry.Config{}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if tc.ok {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			equal(t, tc.name+": body", readAll(t, resp), tc.body)
			continue
		}
		if resp != nil || !errors.Is(err, retry.ErrBody) {
			t.Errorf("%s: RoundTrip = %v, %v", tc.name, resp, err)
		}
		equal(t, tc.name+": done", r.Stats().Done, 0)
	}
	// What a proxy sends whose upstream is gone.
	for _, kind := range []string{"", "Content-Type: text/plain", "Content-Type: audio/mpeg", "Content-Type: application/json\nContent-Encoding: gzip"} {
		sc := newScript(step{status: 200, header: kind})
		resp, err := retry.NewTransport(nil, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, serve(t, sc).URL, "{}"))
		if resp != nil || !errors.Is(err, retry.ErrBody) || sc.calls() != 2 {
			t.Errorf("nothing at all, %q: %v, %v after %d calls", kind, resp, err, sc.calls())
		}
	}
	// Two of three are recovered by the second try.
	sc := newScript(step{status: 200, body: `{"choices":[]}`}, good)
	resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	noError(t, err)
	_ = resp.Body.Close()
}

func TestValidateDecidesInPlaceOfTheRules(t *testing.T) {
	t.Parallel()
	errShort := errors.New("too short")
	for _, tc := range []struct {
		name, body string
		verdict    error
		calls      int
	}{
		{"yes to a truncated one", `{"choices":[{"finish_reason":"length","message":{"content":"It so"}}]}`, nil, 1},
		{"yes to an empty one", `{"choices":[]}`, nil, 1},
		{"no", goodBody, errShort, 2},
		{"stop", goodBody, retry.Stop(errShort), 1},
		{"after", goodBody, retry.After(0, errShort), 4},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: application/json", body: tc.body})
		r := mustNew(t, noWait(retry.Config{Validate: func(resp *http.Response, body []byte) error {
			if string(body) != tc.body || resp.StatusCode != 200 {
				t.Errorf("%s: Validate gets %d %q", tc.name, resp.StatusCode, body)
			}
			return tc.verdict
		}}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if tc.verdict == nil {
			noError(t, err)
			equal(t, tc.name+": body", readAll(t, resp), tc.body)
			continue
		}
		if !errors.Is(err, errShort) || !errors.Is(err, retry.ErrBody) {
			t.Errorf("%s: error %v", tc.name, err)
		}
	}
}

// A stream is judged as it passes: a bad one does not end like a good one.
func TestStreamsAreJudgedAsTheyPass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		ok         bool
	}{
		{"good", sse + sseEnd, true},
		{"empty", sseEnd, false},
		{"an error event", sse + "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n", false},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: text/event-stream", body: tc.body})
		r := mustNew(t, noWait(retry.Config{}))
		ctx, out := retry.WithOutcome(t.Context())
		resp, err := client(t, r).Do(post(t, serve(t, sc).URL, "{}").WithContext(ctx))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		equal(t, tc.name+": bytes", string(b), tc.body)
		if (err == nil) != tc.ok || (out.Err() == nil) != tc.ok || !out.Ended() {
			t.Errorf("%s: read error %v, outcome %v", tc.name, err, out.Err())
		}
		s := r.Stats()
		equal(t, tc.name+": items, done, working", []int64{int64(s.Items), int64(s.Done), s.Working}, []int64{1, map[bool]int64{true: 1}[tc.ok], 0})
	}
}

// A stream that begins with an error has handed nothing on: it is judged like
// any answer. What comes in the same read as a good first event is the reader's.
func TestAStreamThatBeginsWithAnError(t *testing.T) {
	t.Parallel()
	const overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	events := func(body string) step {
		return step{status: 200, header: "Content-Type: text/event-stream; charset=utf-8", body: body}
	}
	for _, tc := range []struct {
		name  string
		first string
		calls int
		ok    bool
	}{
		{"overloaded", overloaded, 2, true},
		{"CRLF", strings.ReplaceAll(overloaded, "\n", "\r\n"), 2, true},
		{"CR", strings.ReplaceAll(overloaded, "\n", "\r"), 2, true},
		{"blank lines before", "\n\n" + overloaded, 2, true},
		{"no blank line after", strings.TrimSuffix(overloaded, "\n"), 2, true},
		{"a gateway's", "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n", 2, true},
		{"Responses", "data: {\"type\":\"response.failed\",\"response\":{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"}}}\n\n", 2, true},
		{"nothing at all", "", 2, true},
		{"the request's fault", "data: {\"error\":{\"message\":\"no such model\",\"code\":400}}\n\n", 1, false},
		{"after a comment", ": ping\n\n" + overloaded, 1, false},
		{"after text", sse + overloaded, 1, false},
		{"text about an error", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"an error fails\"}}]}\n\n" + sseEnd, 1, true},
		{"a long event", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("error ", 20<<10) + "\"}}]}\n\n" + sseEnd, 1, true},
	} {
		sc := newScript(events(tc.first), events(sse+sseEnd))
		r := mustNew(t, noWait(retry.Config{}))
		ctx, out := retry.WithOutcome(t.Context())
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}").WithContext(ctx))
		if err == nil {
			var b []byte
			b, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if want := map[int]string{1: tc.first, 2: sse + sseEnd}[tc.calls]; string(b) != want {
				t.Errorf("%s: read %q, want %q", tc.name, b, want)
			}
		}
		if (err == nil) != tc.ok || (out.Err() == nil) != tc.ok {
			t.Errorf("%s: error %v, outcome %v", tc.name, err, out.Err())
		}
		equal(t, tc.name+": calls, reported, open", []int{sc.calls(), int(r.Stats().Calls), sc.leaked()}, []int{tc.calls, tc.calls, 0})
	}
}

// A placeholder is found in every shape of an answer, and nothing else is taken
// for one.
func TestPlaceholdersInEveryShape(t *testing.T) {
	t.Parallel()
	shapes := map[string]string{
		"chat":        `{"choices":[{"finish_reason":"stop","message":{"content":%q}}]}`,
		"chat, parts": `{"choices":[{"finish_reason":"stop","message":{"content":[{"type":"text","text":%q}]}}]}`,
		"completions": `{"choices":[{"finish_reason":"stop","text":%q}]}`,
		"Anthropic":   `{"type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":%q}]}`,
		"Gemini":      `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":%q}]}}]}`,
		"Responses":   `{"object":"response","status":"completed","output":[{"type":"reasoning","content":[]},{"type":"message","content":[{"type":"output_text","text":%q}]}]}`,
		"Converse":    `{"stopReason":"end_turn","output":{"message":{"role":"assistant","content":[{"text":%q}]}}}`,
		"Cohere":      `{"finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":%q}]}}`,
	}
	for name, shape := range shapes {
		for text, calls := range map[string]int{
			"N/A": 2, "No summary available.": 2, "«null»": 2, "…": 2, "N\u200b/\u2060A": 2, "nu\u00adll": 2, "<br>": 2, "<p></p>\n": 2, "&nbsp;": 2, "<p>N/A</p>": 2, "\u2800-\u3164": 2,
			"👍": 1, "<yes/>": 1, "<p>Sorts.</p>": 1, "a < b": 1, "Sorts a slice.": 1, "nullable": 1, "日本": 1,
		} {
			sc := newScript(step{status: 200, header: "Content-Type: application/json", body: fmt.Sprintf(shape, text)})
			resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
			if err == nil {
				_ = resp.Body.Close()
			}
			if sc.calls() != calls || (err == nil) != (calls == 1) {
				t.Errorf("%s, %q: %d calls, %v", name, text, sc.calls(), err)
			}
		}
	}
	for _, body := range []string{
		`{"choices":[{"finish_reason":"tool_calls","message":{"content":"null","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
		`{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"..."},{"functionCall":{"name":"f"}}]}}]}`,
		`{"choices":[{"finish_reason":"stop","message":{"content":"null"}},{"finish_reason":"stop","message":{"content":"Sorts."}}]}`,
		`{"type":"message","stop_reason":"tool_use","content":[{"type":"text","text":"..."},{"type":"tool_use","id":"a","name":"f","input":{}}]}`,
		`{"data":[{"text":"null"}],"object":"list"}`,
	} {
		sc := newScript(step{status: 200, header: "Content-Type: application/json", body: body})
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		_ = resp.Body.Close()
	}
}
