package retry

import (
	"bytes"
	"encoding/json"
	"slices"

	rule "github.com/nightfuse/nightfuse/internal/placeholder"
)

// placeholderSize is the size of a body that can be a placeholder's: longer
// ones are not looked into.
const placeholderSize = 16 << 10

// placeholder reports whether the text in a whole JSON answer stands for
// nothing.
func placeholder(body []byte) bool {
	if len(body) > placeholderSize || !suspect(body) {
		return false
	}
	type part struct {
		Text string `json:"text"`
	}
	type message struct {
		Content   json.RawMessage `json:"content"`
		ToolCalls []any           `json:"tool_calls"`
	}
	var a struct {
		Choices []struct {
			Message message `json:"message"`
			Text    string  `json:"text"`
		} `json:"choices"`
		Content    json.RawMessage `json:"content"` // Anthropic
		Message    message         `json:"message"` // Cohere, Ollama
		Candidates []struct {
			Content struct {
				Parts []struct {
					part
					Call any `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
		Output json.RawMessage `json:"output"` // Responses, Converse
	}
	if json.Unmarshal(body, &a) != nil {
		return false
	}
	var texts []string
	content := func(m message) bool {
		if len(m.ToolCalls) > 0 {
			return false
		}
		ts, ok := textsOf(m.Content)
		texts = append(texts, ts...)
		return ok
	}
	for _, c := range a.Choices {
		if c.Text != "" {
			texts = append(texts, c.Text)
			continue
		}
		if !content(c.Message) {
			return false
		}
	}
	for _, c := range a.Candidates {
		for _, p := range c.Content.Parts {
			if p.Call != nil {
				return false
			}
			texts = append(texts, p.Text)
		}
	}
	if !content(a.Message) || !content(message{Content: a.Content}) {
		return false
	}
	var converse struct {
		Message message `json:"message"`
	}
	var responses []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	switch {
	case json.Unmarshal(a.Output, &converse) == nil:
		if !content(converse.Message) {
			return false
		}
	case json.Unmarshal(a.Output, &responses) == nil:
		for _, o := range responses {
			if o.Type != "message" && o.Type != "reasoning" || !content(message{Content: o.Content}) {
				return false
			}
		}
	}
	if len(texts) == 0 {
		return false // no known shape, or the verdict has dealt with it
	}
	return !slices.ContainsFunc(texts, func(s string) bool { return !rule.Is(s) })
}

// suspect reports whether body has a member called text or content whose value
// may stand for nothing: a word, or JSON, which begins with a bracket or, as the
// quote of a JSON text in one, with an escape. It spares nearly every answer the
// decoding.
func suspect(body []byte) bool {
	// Without the quote before the key: quotes are everywhere, and a search
	// that begins with one stops at each.
	for _, key := range [...]string{`content"`, `text"`} {
		for rest := body; ; {
			i := bytes.Index(rest, []byte(key))
			if i < 0 {
				break
			}
			rest = bytes.TrimLeft(rest[i+len(key):], ": \t\r\n")
			if len(rest) == 0 || rest[0] != '"' {
				continue
			}
			value := bytes.TrimLeftFunc(rest[1:], rule.Around)
			if len(value) > 0 && (value[0] == '{' || value[0] == '[' || value[0] == '\\') {
				return true
			}
			end := bytes.IndexAny(value, "\"\\")
			if end < 0 {
				continue
			}
			if value[end] == '\\' && bytes.IndexByte(value[:min(len(value), rule.Longest+2)], '"') >= 0 {
				return true
			}
			if rule.Word(bytes.TrimRightFunc(value[:end], rule.Around)) {
				return true
			}
		}
	}
	return false
}

// textsOf returns the texts of a content member: a string or a list of typed
// parts. It is false when a part is more than text.
func textsOf(raw json.RawMessage) ([]string, bool) {
	if len(raw) == 0 {
		return nil, true
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s == "" {
			return nil, true
		}
		return []string{s}, true
	}
	var parts []map[string]any
	if json.Unmarshal(raw, &parts) != nil {
		return nil, false
	}
	var texts []string
	for _, p := range parts {
		switch p["type"] {
		case nil, "text", "output_text":
		case "thinking", "reasoning":
			continue
		default:
			return nil, false
		}
		t, ok := p["text"].(string)
		if !ok {
			return nil, false
		}
		texts = append(texts, t)
	}
	return texts, true
}
