package fakemodel_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// told returns the headers that tell a client how to behave.
func told(h http.Header) map[string]string {
	out := make(map[string]string)
	for name := range h {
		if strings.HasPrefix(name, "Retry-After") || strings.HasPrefix(name, "X-Ratelimit-") {
			out[name] = h.Get(name)
		}
	}
	return out
}

func TestHints(t *testing.T) {
	t.Parallel()
	perMinute := fakemodel.Limits{RPM: 40} // 1.5 s a call
	tests := []struct {
		name   string
		hints  fakemodel.Hints
		limits fakemodel.Limits
		faults fakemodel.Faults
		want   map[string]string // of the second call, which comes with the first
	}{
		{name: "none", limits: perMinute, want: map[string]string{}},
		{
			name: "seconds, rounded up", hints: fakemodel.Hints{Seconds: true}, limits: perMinute,
			want: map[string]string{"Retry-After": "2"},
		},
		{
			name: "date, rounded up", hints: fakemodel.Hints{Date: true}, limits: perMinute,
			want: map[string]string{"Retry-After": "Sat, 01 Jan 2000 00:00:02 GMT"},
		},
		{
			name: "milliseconds and seconds", hints: fakemodel.Hints{Millis: true, Seconds: true}, limits: perMinute,
			want: map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500"},
		},
		{
			name: "a wait of one's own", hints: fakemodel.Hints{Millis: true, Wait: time.Hour}, limits: perMinute,
			want: map[string]string{"Retry-After-Ms": "3600000"},
		},
		{
			name: "end of the outage", hints: fakemodel.Hints{Seconds: true},
			faults: fakemodel.Faults{Outages: []fakemodel.Outage{{To: 90 * time.Second}}},
			want:   map[string]string{"Retry-After": "90"},
		},
		{
			name: "nobody knows when a permanent 429 ends", hints: fakemodel.Hints{Seconds: true},
			faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429}},
			want:   map[string]string{},
		},
		{
			name: "but it may claim to", hints: fakemodel.Hints{Seconds: true, Wait: time.Second},
			faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429}},
			want:   map[string]string{"Retry-After": "1"},
		},
		{
			name: "not with another status", hints: fakemodel.Hints{Seconds: true, Wait: time.Second},
			faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 500}},
			want:   map[string]string{},
		},
		{
			name: "not with a quota", hints: fakemodel.Hints{Seconds: true, Wait: time.Second},
			limits: fakemodel.Limits{DailyTokens: 1},
			want:   map[string]string{},
		},
		{
			name: "not when it can never fit", hints: fakemodel.Hints{Seconds: true, Wait: time.Second},
			limits: fakemodel.Limits{TPM: 5},
			want:   map[string]string{},
		},
		{
			name: "the longest wait of several", hints: fakemodel.Hints{Seconds: true},
			limits: fakemodel.Limits{RPM: 40, WindowCalls: 1},
			want:   map[string]string{"Retry-After": "60"},
		},
		{
			name: "rate limit headers of buckets", hints: fakemodel.Hints{RateLimit: true},
			limits: fakemodel.Limits{RPM: 600, Burst: 10, TPM: 6000},
			want: map[string]string{
				"X-Ratelimit-Limit-Requests": "600", "X-Ratelimit-Remaining-Requests": "8", "X-Ratelimit-Reset-Requests": "200ms",
				"X-Ratelimit-Limit-Tokens": "6000", "X-Ratelimit-Remaining-Tokens": "5980", "X-Ratelimit-Reset-Tokens": "200ms",
			},
		},
		{
			name: "rate limit headers of a window, with a 429", hints: fakemodel.Hints{RateLimit: true},
			limits: fakemodel.Limits{WindowCalls: 1},
			want: map[string]string{
				"X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, fakemodel.Config{Hints: tt.hints, Limits: tt.limits, Faults: tt.faults})
				post(t.Context(), m, ask("hello"))
				r := post(t.Context(), m, ask("hello"))
				if diff := cmp.Diff(told(r.header), tt.want); diff != "" {
					t.Errorf("headers (-got +want):\n%s", diff)
				}
			})
		})
	}
}

// Clients find out from these words what is final, so they are promised.
func TestErrorObjects(t *testing.T) {
	t.Parallel()
	type object struct {
		Message, Type string
		Param, Code   any
	}
	tests := []struct {
		name   string
		config fakemodel.Config
		want   object // of the second call
	}{
		{
			"request bucket",
			fakemodel.Config{Limits: fakemodel.Limits{RPM: 600, Burst: 1}},
			object{
				Message: "Rate limit reached for fake-1 in organization org-fake on requests per min (RPM): Limit 600, Used 600, Requested 1. Please try again in 100ms.",
				Type:    "requests", Code: "rate_limit_exceeded",
			},
		},
		{
			"token bucket",
			fakemodel.Config{Limits: fakemodel.Limits{TPM: 12}},
			object{
				Message: "Rate limit reached for fake-1 in organization org-fake on tokens per min (TPM): Limit 12, Used 9, Requested 9. Please try again in 30s.",
				Type:    "tokens", Code: "rate_limit_exceeded",
			},
		},
		{
			"too large for the bucket",
			fakemodel.Config{Limits: fakemodel.Limits{TPM: 8}},
			object{
				Message: "Request too large for fake-1 in organization org-fake on tokens per min (TPM): Limit 8, Requested 9. Send less, or ask for less.",
				Type:    "tokens", Code: "rate_limit_exceeded",
			},
		},
		{
			"quota",
			fakemodel.Config{Limits: fakemodel.Limits{DailyTokens: 1}},
			object{
				Message: "You exceeded your current quota, please check your plan and billing details.",
				Type:    "insufficient_quota", Code: "insufficient_quota",
			},
		},
		{
			"poison",
			fakemodel.Config{Faults: fakemodel.Faults{Poison: fakemodel.Pick{Share: 1}}},
			object{Message: "Invalid 'messages': the content cannot be processed.", Type: "invalid_request_error", Param: "messages"},
		},
		{
			"status without a name",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 529, Code: "busy"}}},
			object{Message: "The server had an error while processing your request ID.", Type: "server_error", Code: "busy"},
		},
		{
			"client error without a name",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 499}}},
			object{Message: "status 499", Type: "invalid_request_error"},
		},
		{
			"model not found",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 404}}},
			object{
				Message: "The model does not exist or you do not have access to it.",
				Type:    "invalid_request_error", Code: "model_not_found",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, tt.config)
				post(t.Context(), m, ask("hey"))
				r := post(t.Context(), m, ask("hey"))
				var got struct{ Error object }
				if err := json.Unmarshal([]byte(r.body), &got); err != nil {
					t.Fatal(err)
				}
				got.Error.Message = strings.Replace(got.Error.Message, r.header.Get("X-Request-Id"), "ID", 1)
				if diff := cmp.Diff(got.Error, tt.want); diff != "" {
					t.Errorf("error (-got +want):\n%s", diff)
				}
			})
		})
	}
}
