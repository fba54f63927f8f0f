package modelapi

import (
	"math"
	"net/url"
	"strings"
)

// Request is what a request's body and path say about its cost.
type Request struct {
	Model     string
	MaxOutput int64 // the output cap times the number of answers; 0 = not said
	Stream    bool
}

// ParseRequest reads a request. path is the URL's path, for the APIs that name
// the model there.
func ParseRequest(path string, body []byte) Request {
	in := begin(nRequest)
	defer in.end()
	in.scan.write(body)
	f := &in.facts
	r := Request{Model: f.model, Stream: f.streaming || streamPath(path)}
	if r.Model == "" {
		r.Model = pathModel(path)
	}
	if f.nums[fMax] > 0 {
		r.MaxOutput = f.nums[fMax]
		if n := f.nums[fCount]; n > 1 {
			if r.MaxOutput > math.MaxInt64/n {
				r.MaxOutput = math.MaxInt64
			} else {
				r.MaxOutput *= n
			}
		}
	}
	return r
}

// streamPath reports whether path is one that asks for a stream.
func streamPath(path string) bool {
	return strings.HasSuffix(path, ":streamGenerateContent") || strings.HasSuffix(path, "/converse-stream") ||
		strings.HasSuffix(path, "/invoke-with-response-stream")
}

// pathModel returns the model in path: /models/{m}:generateContent (Gemini),
// /model/{id}/converse (Bedrock), /deployments/{d}/ (Azure).
func pathModel(path string) string {
	for _, mark := range [...]string{"/deployments/", "/models/", "/model/"} {
		_, after, ok := strings.Cut(path, mark)
		if !ok {
			continue
		}
		name, _, inside := strings.Cut(after, "/")
		if mark == "/models/" {
			var verb bool
			if name, _, verb = strings.Cut(after, ":"); !verb {
				continue
			}
		} else if !inside {
			continue
		}
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		return name
	}
	return ""
}
