package retry

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// placeholderSize is the size of a body that can be a placeholder's: longer
// ones are not looked into.
const placeholderSize = 16 << 10

// longest is the longest text that can be a placeholder.
const longest = 64

// longestWords is the length of the longest of placeholders.
const longestWords = len("no summary available")

// placeholders are texts that stand where an answer should, without
// punctuation and in lower case. Words that can be a classifier's answer, such
// as "none", are not among them.
var placeholders = map[string]bool{
	"null": true, "nil": true, "undefined": true, "nan": true, "n a": true, "object object": true,
	"placeholder": true, "lorem ipsum": true, "no content": true, "content unavailable": true,
	"no summary": true, "no summary available": true, "summary unavailable": true,
	"no response": true, "no output": true, "no answer": true,
}

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
	for _, s := range texts {
		if !stands(s) {
			return false
		}
	}
	return true
}

// suspect reports whether body has a member called text or content whose value
// may stand for nothing. It spares nearly every answer the decoding.
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
			value := rest[1:min(len(rest), longest+2)]
			if j := bytes.IndexByte(value, '"'); j >= 0 && (bytes.IndexByte(value[:j], '\\') >= 0 || stands(value[:j])) {
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

// plain holds the ASCII characters in lower case, and 0 for white space and
// punctuation: looking at every answer must cost next to nothing.
var plain = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		if r := rune(c); !unicode.IsSpace(r) && !unicode.IsPunct(r) {
			t[c] = byte(unicode.ToLower(r))
		}
	}
	return t
}()

// stands reports whether s is a placeholder: one of the list, or nothing but
// punctuation, HTML tags and characters that show nothing.
func stands[S string | []byte](s S) bool {
	if len(s) > longest {
		return false
	}
	var buf [longest + 1]byte
	words := buf[:0]
	gap := false
	for i := 0; i < len(s); {
		c := s[i]
		switch n := markup(s[i:]); {
		case n > 0:
			i += n
			c = 0
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(string(s[i:]))
			i += n
			switch {
			case unicode.IsSpace(r), unicode.IsPunct(r):
				c = 0
			case modelapi.Blank(r):
				continue // joins what it stands between
			default:
				return false // the list is plain ASCII
			}
		default:
			i++
			c = plain[c]
		}
		if c == 0 {
			gap = len(words) > 0
			continue
		}
		if gap {
			words, gap = append(words, ' '), false
		}
		if words = append(words, c); len(words) > longestWords {
			return false
		}
	}
	return len(words) == 0 || placeholders[string(words)]
}

// emptyTags are the HTML elements that show nothing by themselves. Others may
// be an answer: <yes/>.
var emptyTags = map[string]bool{
	"br": true, "p": true, "div": true, "span": true, "hr": true, "b": true, "i": true, "em": true, "strong": true,
	"ul": true, "ol": true, "li": true, "pre": true, "code": true, "html": true, "body": true,
}

// markup returns the length of the tag of one of emptyTags, or of the space by
// name, that s begins with; 0 when it begins with neither.
func markup[S string | []byte](s S) int {
	const nbsp = "&nbsp;"
	switch {
	case s[0] == '&' && len(s) >= len(nbsp) && string(s[:len(nbsp)]) == nbsp:
		return len(nbsp)
	case s[0] != '<':
		return 0
	}
	for i := range len(s) {
		if s[i] == '>' {
			name := strings.ToLower(strings.Trim(string(s[1:i]), "/ "))
			if emptyTags[name] {
				return i + 1
			}
			break
		}
	}
	return 0
}
