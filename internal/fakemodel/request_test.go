package fakemodel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// answer is the part of a completion that tests look at.
type answer struct {
	Object, Model string
	Choices       []struct {
		Message struct{ Role, Content string }
		Finish  string `json:"finish_reason"`
	}
	Usage *usage
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	tests := []struct {
		name, body   string
		text, finish string
		usage        usage
	}{
		{
			"short", ask("Two customers asked for a refund."),
			"In short: Two customers asked for a refund.", "stop",
			usage{9 + 4, 11, 24},
		},
		{
			"long", ask(long),
			"In short: " + strings.TrimSpace(strings.Repeat("word ", 24)) + ", and more.", "stop",
			usage{38 + 4, 35, 77},
		},
		{"no words", ask(" \n"), "In short: a request without words.", "stop", usage{1 + 4, 9, 14}},
		{"capped", ask("hello there", `"max_tokens":3`), "In short: he", "length", usage{3 + 4, 3, 10}},
		{"capped by the lower of two", ask("hello there", `"max_tokens":3`, `"max_completion_tokens":2`), "In short", "length", usage{3 + 4, 2, 9}},
		{"capped between runes", ask("a\u00e9\u00e9", `"max_tokens":3`), "In short: a", "length", usage{2 + 4, 3, 9}},
		{"cap not reached", ask("hello", `"max_tokens":5`), "In short: hello.", "stop", usage{2 + 4, 4, 10}},
		{
			"several messages, the last user's is the prompt",
			`{"model":"fake-1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"one"},{"role":"assistant","content":null},{"role":"user","content":[{"type":"text","text":"two"},{"type":"image_url","image_url":{}},{"type":"text","text":" three"}]},{"role":"assistant","content":"x"}]}`,
			"In short: two three.", "stop",
			usage{6 + 5*4, 5, 31},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, fakemodel.Config{})
			r := post(t.Context(), m, tt.body)
			var got answer
			if err := json.Unmarshal([]byte(r.body), &got); err != nil {
				t.Fatalf("%v: %s", err, r.body)
			}
			want := answer{Object: "chat.completion", Model: "fake-1", Usage: &tt.usage}
			want.Choices = append(want.Choices, struct {
				Message struct{ Role, Content string }
				Finish  string `json:"finish_reason"`
			}{Finish: tt.finish})
			want.Choices[0].Message.Role, want.Choices[0].Message.Content = "assistant", tt.text
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("answer (-got +want):\n%s", diff)
			}
			if billed := m.Stats().Tokens; billed != int64(tt.usage.Total) {
				t.Errorf("billed: got %d, want %d", billed, tt.usage.Total)
			}
		})
	}
}

func TestAnswerOfOnesOwn(t *testing.T) {
	t.Parallel()
	m := newModel(t, fakemodel.Config{NoUsage: true, Answer: strings.ToUpper})
	r := post(t.Context(), m, ask("hello"))
	if !strings.Contains(r.body, `"content":"HELLO"`) || strings.Contains(r.body, "usage") {
		t.Errorf("got %s, want HELLO and no usage", r.body)
	}
	if got := m.Stats().Tokens; got != 6+2 {
		t.Errorf("billed: got %d, want 8", got)
	}
}

// Items are told apart by all of their messages and by nothing else.
func TestItems(t *testing.T) {
	t.Parallel()
	m := newModel(t, fakemodel.Config{})
	for _, body := range []string{
		ask("a"), ask("a", `"user":"ann"`, `"max_tokens":1`, `"stream":true`),
		`{"messages":[{"content":[{"type":"text","text":"a"}],"role":"user"}],"model":"fake-2"}`,
		ask("b"),
		`{"model":"fake-1","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]}`,
		`{"model":"fake-1","messages":[{"role":"user","content":"ab"},{"role":"user","content":"c"}]}`,
		`{"model":"fake-1","messages":[{"role":"user","content":"a"},{"role":"user","content":"bc"}]}`,
		`{"model":"fake-1"}`,
	} {
		post(t.Context(), m, body)
	}
	s := m.Stats()
	calls := make(map[string][]int)
	for _, it := range s.Items {
		calls[it.Prompt] = append(calls[it.Prompt], it.Calls)
	}
	if len(calls["a"]) == 2 && calls["a"][0] == 1 {
		calls["a"][0], calls["a"][1] = calls["a"][1], calls["a"][0]
	}
	want := map[string][]int{"a": {3, 1}, "b": {1}, "c": {1}, "bc": {1}}
	if diff := cmp.Diff(calls, want); diff != "" {
		t.Errorf("calls by prompt (-got +want):\n%s", diff)
	}
	if got, want := s.Prompt("b"), (fakemodel.Item{Prompt: "b", Calls: 1, Attempts: 1, OK: 1, Last: fakemodel.FateOK, Tokens: 8}); got != want {
		t.Errorf("Prompt(b): got %+v, want %+v", got, want)
	}
	if got := s.Prompt("nobody's"); got != (fakemodel.Item{}) {
		t.Errorf("Prompt of nobody: got %+v, want zero", got)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	const path = "/v1/chat/completions"
	good := ask("hello")
	tests := []struct {
		name, method, path, body, auth string
		status                         int
		param                          string
	}{
		{"good", "POST", path, good, "Bearer k", 200, ""},
		{"other prefix", "POST", "/openai/deployments/x/chat/completions", good, "Bearer k", 200, ""},
		{"path", "POST", "/v1/completions", good, "Bearer k", 404, ""},
		{"method", "GET", path, "", "Bearer k", 405, ""},
		{"wrong key", "POST", path, good, "Bearer K", 401, ""},
		{"no key", "POST", path, good, "", 401, ""},
		{"wrong key before a bad body", "POST", path, "{", "", 401, ""},
		{"no JSON", "POST", path, "{", "Bearer k", 400, ""},
		{"no body", "POST", path, "", "Bearer k", 400, ""},
		{"too large", "POST", path, strings.Repeat(" ", 16<<20+1), "Bearer k", 413, ""},
		{"no model", "POST", path, `{"messages":[{"role":"user","content":"x"}]}`, "Bearer k", 400, "model"},
		{"no messages", "POST", path, `{"model":"m","messages":[]}`, "Bearer k", 400, "messages"},
		{"content", "POST", path, `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"user","content":7}]}`, "Bearer k", 400, "messages[1].content"},
		{"parts", "POST", path, `{"model":"m","messages":[{"role":"user","content":[7]}]}`, "Bearer k", 400, "messages[0].content"},
		{"two choices", "POST", path, ask("x", `"n":2`), "Bearer k", 400, "n"},
		{"one choice", "POST", path, ask("x", `"n":1`), "Bearer k", 200, ""},
		{"cap of nothing", "POST", path, ask("x", `"max_tokens":0`), "Bearer k", 400, "max_tokens"},
		{"other cap of nothing", "POST", path, ask("x", `"max_completion_tokens":-1`), "Bearer k", 400, "max_completion_tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, fakemodel.Config{Key: "k"})
			req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			if tt.auth != "" {
				req.Header.Set("Authorization", tt.auth)
			}
			w := httptest.NewRecorder()
			m.ServeHTTP(w, req)
			if w.Code != tt.status {
				t.Fatalf("status: got %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if tt.status == http.StatusOK {
				return
			}
			var got struct {
				Error struct{ Message, Type, Param string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Error.Param != tt.param || got.Error.Type != "invalid_request_error" || got.Error.Message == "" {
				t.Errorf("got %+v, want a message about %q", got.Error, tt.param)
			}
			s := m.Stats()
			if len(s.Items) != 0 || s.Calls != 1 || s.Status[tt.status] != 1 || s.Tokens != 0 {
				t.Errorf("stats: got %+v, want one call, no item, nothing billed", s)
			}
		})
	}
}

// Whatever the body, the answer is JSON with an error or a choice, or a whole
// stream.
func FuzzBody(f *testing.F) {
	f.Add(ask("hello"))
	f.Add(ask("\u00e9\u00e9\u00e9 ends", `"max_tokens":3`))
	f.Add(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`)
	f.Add(`{"model":"m","messages":[{"content":null}],"n":null,"stream_options":null}`)
	f.Add(ask("a b c d e", `"stream":true`, `"stream_options":{"include_usage":true}`))
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, body string) {
		m := newModel(t, fakemodel.Config{})
		r := post(t.Context(), m, body)
		if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
			if got := chunks(t, r.body); got[len(got)-1].Text != "[DONE]" || r.err != nil {
				t.Errorf("got %v, %v, want it to end with [DONE]", got, r.err)
			}
			return
		}
		switch got := r.outcome(); got {
		case ok, poisoned:
		default:
			t.Errorf("got %q", got)
		}
	})
}
