package fakemodel

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// wireError is an error object of the API.
type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type wireUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

type wireCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
}

type wireChoice struct {
	Index        int         `json:"index"`
	Message      wireContent `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason string      `json:"finish_reason"`
}

type wireContent struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

// A completion is the text a call would get.
type completion struct {
	id      string
	created int64
	model   string
	text    string
	reason  string // stop or length
	usage   wireUsage
}

// capped cuts text to max tokens, 0 = no cap.
func capped(text string, maxTokens int) (cut, reason string) {
	if maxTokens == 0 || tokensOf(len(text)) <= int64(maxTokens) {
		return text, "stop"
	}
	end := maxTokens * 4
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], "length"
}

func (c *completion) body(noUsage bool) []byte {
	w := wireCompletion{
		ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model,
		Choices: []wireChoice{{Message: wireContent{Role: "assistant", Content: c.text}, FinishReason: c.reason}},
	}
	if !noUsage {
		w.Usage = &c.usage
	}
	return encode(w)
}

// summary is the default Answer: the prompt's first words.
func summary(prompt string) string {
	const most = 24
	words := strings.Fields(prompt)
	if len(words) == 0 {
		return "In short: a request without words."
	}
	end := "."
	if len(words) > most {
		words, end = words[:most], ", and more."
	}
	return "In short: " + strings.TrimRight(strings.Join(words, " "), ".,;:!?") + end
}

// failure returns the error object of a status with a code; "" = the usual.
func failure(status int, code, id string) wireError {
	e := wireError{Message: http.StatusText(status), Type: "invalid_request_error"}
	switch {
	case code == "insufficient_quota":
		e.Type, e.Message = code, "You exceeded your current quota, please check your plan and billing details."
	case status == http.StatusUnauthorized:
		e.Message = "Incorrect API key provided."
		code = orElse(code, "invalid_api_key")
	case status == http.StatusNotFound:
		e.Message = "The model does not exist or you do not have access to it."
		code = orElse(code, "model_not_found")
	case status == http.StatusTooManyRequests:
		e.Type, e.Message = "requests", "Rate limit reached for requests."
		code = orElse(code, "rate_limit_exceeded")
	case status == http.StatusServiceUnavailable:
		e.Type, e.Message = "server_error", "The engine is currently overloaded, please try again later."
		code = orElse(code, "overloaded")
	case status >= 500:
		e.Type = "server_error"
		e.Message = "The server had an error while processing your request " + id + "."
		code = orElse(code, "server_error")
	}
	if e.Message == "" {
		e.Message = "status " + strconv.Itoa(status)
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func (e wireError) body() []byte {
	return encode(struct {
		Error wireError `json:"error"`
	}{e})
}

// apply sets the headers that tell how long to wait, for a wait of d; 0 = not
// known.
func (h *Hints) apply(to http.Header, d time.Duration, now time.Time) {
	if h.Wait != 0 {
		d = h.Wait
	}
	if d <= 0 {
		return
	}
	if h.Seconds {
		to.Set("Retry-After", strconv.FormatInt(int64(ceil(d, time.Second)/time.Second), 10))
	}
	if h.Date {
		at := now.Add(d)
		if whole := at.Truncate(time.Second); whole.Before(at) {
			at = whole.Add(time.Second)
		}
		to.Set("Retry-After", at.UTC().Format(http.TimeFormat))
	}
	if h.Millis {
		to.Set("Retry-After-Ms", strconv.FormatInt(int64(ceil(d, time.Millisecond)/time.Millisecond), 10))
	}
}

// encode marshals what cannot fail to be marshalled.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fakemodel: " + err.Error())
	}
	return b
}
