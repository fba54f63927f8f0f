package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"
)

// answers are what providers say, with a place for what varies.
var answers = []struct {
	name   string
	status int
	body   func(*maker) string
}{
	{"tpm", 429, func(m *maker) string {
		return fmt.Sprintf(`{"error":{"message":"Rate limit reached for gpt-4o in organization org-%s on tokens per min (TPM): Limit %d, Used %d, Requested %d. Please try again in %dms.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
			m.base62(24), 30000, m.digits(1, 30000), m.digits(1, 9000), m.digits(1, 999))
	}},
	{"quota", 429, func(*maker) string {
		return `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	}},
	{"key", 401, func(m *maker) string {
		return fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: sk-proj-%s****%s. You can find your key in the settings.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, m.base62(4), m.base62(4))
	}},
	{"model", 404, func(m *maker) string {
		return `{"error":{"message":"The model 'gpt-9-mini' does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`
	}},
	{"server", 500, func(m *maker) string {
		return fmt.Sprintf(`{"error":{"message":"The server had an error processing your request. Include the request ID req_%s in your message.","type":"server_error","param":null,"code":null}}`, m.hex(32))
	}},
	{"html", 502, func(m *maker) string {
		return fmt.Sprintf("<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center><hr><center>edge-%d</center></body></html>", m.digits(1, 99))
	}},
}

func providers() []failure {
	var list []failure
	for _, a := range answers {
		server := func(m *maker) *httptest.Server {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(a.body(m), "<") {
					w.Header().Set("Content-Type", "text/html")
				}
				w.Header().Set("X-Request-Id", "req_"+m.hex(32))
				w.Header().Set("Request-Id", "req_011"+m.base62(21))
				w.WriteHeader(a.status)
				fmt.Fprint(w, a.body(m))
			})
			s.Start()
			return s
		}
		list = append(list,
			// This SDK hides the provider's message: all that differs is the status.
			failure{fmt.Sprintf("openai_go@%d", a.status), func(m *maker) error {
				s := server(m)
				defer s.Close()
				c := openai.NewClient(option.WithBaseURL(s.URL+"/v1/"), option.WithAPIKey("sk-"+m.base62(40)), option.WithMaxRetries(0))
				_, err := c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{Model: "gpt-4o"})
				return err
			}},
			failure{"openai_dump_" + a.name, func(m *maker) error {
				s := server(m)
				defer s.Close()
				c := openai.NewClient(option.WithBaseURL(s.URL+"/v1/"), option.WithAPIKey("sk-"+m.base62(40)), option.WithMaxRetries(0))
				_, err := c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{Model: "gpt-4o"})
				if e, ok := errors.AsType[*openai.Error](err); ok {
					return fmt.Errorf("status %d: %s", e.StatusCode, e.RawJSON())
				}
				return err
			}},
			failure{"go_openai_" + a.name, func(m *maker) error {
				s := server(m)
				defer s.Close()
				cfg := goopenai.DefaultConfig("sk-" + m.base62(40))
				cfg.BaseURL = s.URL + "/v1"
				_, err := goopenai.NewClientWithConfig(cfg).CreateChatCompletion(context.Background(), goopenai.ChatCompletionRequest{Model: "gpt-4o"})
				return err
			}},
			failure{"anthropic_" + a.name, func(m *maker) error {
				s := server(m)
				defer s.Close()
				c := anthropic.NewClient(anthropicoption.WithBaseURL(s.URL), anthropicoption.WithAPIKey("sk-ant-"+m.base62(40)), anthropicoption.WithMaxRetries(0))
				_, err := c.Messages.New(context.Background(), anthropic.MessageNewParams{
					Model: "claude-sonnet-4-5", MaxTokens: 9,
					Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))},
				})
				return err
			}})
	}
	return list
}
