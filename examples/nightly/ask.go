package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// A model is a chat-completions endpoint. It knows nothing of any guard: they
// are in the client.
type model struct {
	client  *http.Client
	baseURL string // up to and without /chat/completions
	name    string
	key     string
}

// maxSummary is the output cap of one call, in tokens.
const maxSummary = 120

const instruction = "Summarise the documentation of this Go symbol in one sentence."

// maxAnswer bounds what is read of an answer; a summary is far below.
const maxAnswer = 4 << 20

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
}

type chatAnswer struct {
	Choices []struct {
		Message message `json:"message"`
	} `json:"choices"`
	Usage struct {
		Total int64 `json:"total_tokens"`
	} `json:"usage"`
}

// request returns the body of the call for an item.
func (m *model) request(it item) ([]byte, error) {
	return json.Marshal(chatRequest{
		Model:     m.name,
		MaxTokens: maxSummary,
		Messages: []message{
			{Role: "system", Content: instruction},
			{Role: "user", Content: it.Symbol + "\n\n" + it.Text},
		},
	})
}

// ask makes one call for the item and returns the summary and the tokens that
// the upstream says it used.
func (m *model) ask(ctx context.Context, it item) (summary string, tokens int64, err error) {
	body, err := m.request(it)
	if err != nil {
		return "", 0, err
	}
	// A bytes.Reader gives the request a GetBody, so a second attempt costs no
	// copy of the body.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.baseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+m.key)
	resp, err := m.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", 0, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", 0, newStatusError(resp.StatusCode, b)
	}
	var a chatAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return "", 0, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if len(a.Choices) == 0 {
		return "", 0, errors.New("the answer has no choices")
	}
	return a.Choices[0].Message.Content, a.Usage.Total, nil
}

// statusError is an answer with an error status. The guards read the status by
// the method StatusCode.
type statusError struct {
	status        int
	code, message string
}

func newStatusError(status int, body []byte) *statusError {
	var envelope struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    any    `json:"code"`
		} `json:"error"`
	}
	e := &statusError{status: status}
	if json.Unmarshal(body, &envelope) == nil {
		e.message, e.code = envelope.Error.Message, envelope.Error.Type
		if code, ok := envelope.Error.Code.(string); ok && code != "" {
			e.code = code
		}
	}
	return e
}

func (e *statusError) Error() string {
	var s strings.Builder
	s.WriteString(fmt.Sprintf("upstream answered %d", e.status))
	for _, more := range []string{e.code, e.message} {
		if more != "" {
			s.WriteString(": " + more)
		}
	}
	return s.String()
}

func (e *statusError) StatusCode() int { return e.status }

// placeholders are the texts that mean nothing was summarised, in lower case.
var placeholders = []string{"n/a", "none", "null", "todo", "error", "br", "summary", "no summary available"}

// checkSummary refuses what must not pass as a result: a summary has words.
func checkSummary(s string) error {
	s = strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if s == "" || strings.Trim(s, "\u3164\u115f\u1160\uffa0") == "" { // letters without a glyph
		return errors.New("placeholder: the summary is empty")
	}
	for _, p := range placeholders {
		if strings.EqualFold(s, p) {
			return fmt.Errorf("placeholder: the summary is %q", s)
		}
	}
	return nil
}
