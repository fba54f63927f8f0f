package modelapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// again is a body that can be read from the begin without an allocation.
type again struct {
	bytes.Reader
	data []byte
}

func (a *again) Close() error { return nil }

func benchmark(b *testing.B, header, body string, read func(*http.Response)) {
	src := &again{data: []byte(body)}
	h := headerOf(header)
	resp := new(http.Response)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(src.data)
		*resp = http.Response{StatusCode: 200, Header: h, Body: src, ContentLength: int64(len(body))}
		read(resp)
	}
}

var buffer = make([]byte, 32<<10)

func drain(resp *http.Response) {
	for {
		if _, err := resp.Body.Read(buffer); err != nil {
			break
		}
	}
	_ = resp.Body.Close()
}

func BenchmarkBody(b *testing.B) {
	prose := strings.Repeat("Two customers asked for a refund, one of them in \\\"capitals\\\".\\n", 3800)
	large := strings.Replace(good, "hi", prose, 1)
	vectors := `{"object":"list","data":[{"embedding":[` + strings.Repeat("-0.012345678,", 18000) + `0]}],"usage":{"prompt_tokens":5,"total_tokens":5}}`
	objects := `{"object":"list","data":[` + strings.Repeat(`{"id":"m-1","object":"model","owned_by":"x","n":[1,2]},`, 4300) + `{}]}`
	stream := strings.Repeat("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" refund\"},\"finish_reason\":null}]}\n\n", 1700) + "data: [DONE]\n\n"
	for _, c := range []struct{ name, header, body string }{
		{"small", jsonType, good},
		{"chat-240K", jsonType, large},
		{"embedding-240K", jsonType, vectors},
		{"objects-240K", jsonType, objects},
		{"stream-240K", sseType, stream},
	} {
		b.Run(c.name+"/watch", func(b *testing.B) {
			benchmark(b, c.header, c.body, func(resp *http.Response) {
				modelapi.Watch(nil, resp, noon)
				drain(resp)
			})
		})
		b.Run(c.name+"/unwatched", func(b *testing.B) { benchmark(b, c.header, c.body, drain) })
		if c.header == jsonType {
			b.Run(c.name+"/unmarshal", func(b *testing.B) {
				benchmark(b, c.header, c.body, func(resp *http.Response) {
					data, _ := io.ReadAll(resp.Body)
					var doc any
					if err := json.Unmarshal(data, &doc); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

func BenchmarkHold(b *testing.B) {
	benchmark(b, jsonType, good, func(resp *http.Response) {
		v := modelapi.Watch(attempt(), resp, noon)
		v.OnEnd(func(modelapi.Verdict) {})
		_, _, _ = v.Hold(4<<20, time.Minute)
		drain(resp)
	})
}

func BenchmarkParseHint(b *testing.B) {
	h := headerOf("Content-Type: application/json\nX-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 1.874s\nX-Ratelimit-Remaining-Requests: 5\n")
	b.ReportAllocs()
	for b.Loop() {
		modelapi.ParseHint(h, noon)
	}
}

// TestAllocations: a view costs little beside the response it looks at.
func TestAllocations(t *testing.T) {
	src := &again{data: []byte(good)}
	h := headerOf(jsonType)
	resp := new(http.Response)
	n := testing.AllocsPerRun(100, func() {
		src.Reset(src.data)
		*resp = http.Response{StatusCode: 200, Header: h, Body: src}
		modelapi.Watch(nil, resp, noon)
		drain(resp)
	})
	if n > 3 {
		t.Errorf("%v allocations", n)
	}
}
