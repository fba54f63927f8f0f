package fakemodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
)

// A Call is what a fault's If decides by.
type Call struct {
	Item      string // hash of the messages, 16 hex digits
	Attempt   int    // from 1; only calls that passed the limits count
	Prompt    string // text of the last user message
	Model     string
	User      string
	MaxTokens int // 0 = no cap
	Stream    bool
}

// A request is a decoded chat-completions request.
type request struct {
	Call
	item         uint64
	promptTokens int64
	includeUsage bool
}

// tokensPerMessage is what a message costs beside its content.
const tokensPerMessage = 4

// wireRequest is the body's part that matters.
type wireRequest struct {
	Model               string        `json:"model"`
	Messages            []wireMessage `json:"messages"`
	MaxTokens           *int          `json:"max_tokens"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	N                   *int          `json:"n"`
	Stream              bool          `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	User string `json:"user"`
}

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// A badParam is a request that the API cannot understand.
type badParam struct{ param, message string }

// parse decodes body. It returns a complaint instead if it is not a
// chat-completions request.
func parse(body []byte) (*request, *badParam) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &badParam{"", "We could not parse the JSON body of your request: " + err.Error()}
	}
	r := &request{
		Call:         Call{Model: w.Model, User: w.User, Stream: w.Stream},
		includeUsage: w.StreamOptions.IncludeUsage,
	}
	if w.Model == "" {
		return nil, &badParam{"model", "You must provide a model parameter."}
	}
	if len(w.Messages) == 0 {
		return nil, &badParam{"messages", "Missing required parameter: 'messages'."}
	}
	if w.N != nil && *w.N != 1 {
		return nil, &badParam{"n", "This model gives one choice: n must be 1."}
	}
	for i, limit := range []*int{w.MaxTokens, w.MaxCompletionTokens} {
		if limit == nil {
			continue
		}
		if *limit < 1 {
			name := [...]string{"max_tokens", "max_completion_tokens"}[i]
			return nil, &badParam{name, fmt.Sprintf("Invalid '%s': integer below minimum value.", name)}
		}
		if r.MaxTokens == 0 || *limit < r.MaxTokens {
			r.MaxTokens = *limit
		}
	}
	sum := fnv.New64a()
	size := 0
	for i, m := range w.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			param := fmt.Sprintf("messages[%d].content", i)
			return nil, &badParam{param, fmt.Sprintf("Invalid type for '%s': %v.", param, err)}
		}
		// The lengths keep neighbouring texts apart.
		fmt.Fprintf(sum, "%d,%d:%s%s", len(m.Role), len(text), m.Role, text)
		size += len(text)
		if m.Role == "user" {
			r.Prompt = text
		}
	}
	r.item = sum.Sum64()
	r.Item = fmt.Sprintf("%016x", r.item)
	r.promptTokens = tokensOf(size) + int64(len(w.Messages))*tokensPerMessage
	return r, nil
}

// contentText returns the text of a message's content: a string, null, or
// parts of which those of type text count.
func contentText(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case raw[0] == '[':
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(raw, &parts); err != nil {
			return "", errors.New("expected parts")
		}
		var all []byte
		for _, p := range parts {
			if p.Type == "text" {
				all = append(all, p.Text...)
			}
		}
		return string(all), nil
	}
	return "", errors.New("expected a string or parts")
}

// tokensOf is the number of tokens of size bytes.
func tokensOf(size int) int64 { return int64(math.Ceil(float64(size) / 4)) }
