package fakemodel

import "strings"

// wordsPerEvent is how much text an event of a stream carries.
const wordsPerEvent = 4

type wireChunk struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireDelta  `json:"choices"`
	Usage   *nulledUsage `json:"usage,omitempty"`
}

// nulledUsage is usage that is null when there is none; a nil *nulledUsage
// leaves the field out.
type nulledUsage struct{ *wireUsage }

func (u nulledUsage) MarshalJSON() ([]byte, error) { return encode(u.wireUsage), nil }

type wireDelta struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// events returns the server-sent events of c, [DONE] being the last. With
// usage the last but one has it, and it is null in the others.
func (c *completion) events(usage bool) [][]byte {
	var out [][]byte
	add := func(choices []wireDelta, u *wireUsage) {
		w := wireChunk{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Choices: choices}
		if usage {
			w.Usage = &nulledUsage{u}
		}
		out = append(out, event(encode(w)))
	}
	empty := ""
	add([]wireDelta{{Delta: delta{Role: "assistant", Content: &empty}}}, nil)
	for _, part := range parts(c.text) {
		add([]wireDelta{{Delta: delta{Content: &part}}}, nil)
	}
	add([]wireDelta{{FinishReason: &c.reason}}, nil)
	if usage {
		add([]wireDelta{}, &c.usage)
	}
	return append(out, event([]byte("[DONE]")))
}

// parts splits text after every few spaces.
func parts(text string) []string {
	var out []string
	for text != "" {
		end, words := 0, 0
		for words < wordsPerEvent && end < len(text) {
			next := strings.IndexByte(text[end:], ' ')
			if next < 0 {
				end = len(text)
				break
			}
			end += next + 1
			words++
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// firstHalf returns at least one event and never the one that finishes.
func firstHalf(events [][]byte) [][]byte { return events[:max(1, len(events)/2)] }

func event(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\n\n"...)
}
