package modelapi

import (
	"math"
	"net/http"
	"strconv"
)

// Usage counts the tokens of one call. Input is everything read, cached tokens
// included; Output everything generated, reasoning included. Cached (tokens
// read from a cache) and Reasoning are parts of them, for information.
type Usage struct{ Input, Output, Cached, Reasoning int64 }

// maxCount is far above any count of tokens, and sums of it do not overflow.
const maxCount = 1 << 53

// number keeps a number. Counts that arrive in several events are cumulative:
// the last one stands, and nothing is added up. What is no count is kept as -1,
// so that it spoils the usage instead of passing for zero.
func (f *facts) number(i field, b []byte) {
	if string(b) == "null" {
		return
	}
	if i == fMax && f.seen[i] {
		// Two output caps in one request: the larger one is paid for.
		f.nums[i] = max(f.nums[i], count(b))
		return
	}
	f.seen[i], f.nums[i] = true, count(b)
	if i == fCompletion || i == fGemCandidates || i == fGemThoughts {
		f.chat = true
	}
}

// count reads a token count, -1 when b is none. Some schemas have them as
// floats.
func count(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		x, err := strconv.ParseFloat(string(b), 64)
		if err != nil || !(x >= 0 && x <= maxCount) {
			return -1
		}
		n = int64(math.Ceil(x))
	}
	if n < 0 || n > maxCount {
		return -1
	}
	return n
}

// usage puts the counts together. It reports false when there are none, when
// one of them is no count, and when they say that nothing was used: a call
// without any input does not exist, and some servers send zeros for unknown.
func (f *facts) usage() (Usage, bool) {
	n, seen := &f.nums, &f.seen
	var u Usage
	var total int64
	switch {
	case seen[fPrompt] || seen[fCompletion]:
		u = Usage{n[fPrompt], n[fCompletion], n[fCached], n[fReasoning]}
		total = n[fTotal]
	case seen[fInput] || seen[fOutput]:
		// Anthropic counts cached tokens beside the input, Responses inside it
		// and under another name.
		u = Usage{n[fInput] + n[fCacheNew] + n[fCacheRead], n[fOutput], n[fCached] + n[fCacheRead], n[fReasoning]}
		total = n[fTotal]
	case seen[fGemPrompt] || seen[fGemCandidates]:
		u = Usage{n[fGemPrompt] + n[fGemTool], n[fGemCandidates] + n[fGemThoughts], n[fGemCached], n[fGemThoughts]}
		total = n[fGemTotal]
	case seen[fConIn] || seen[fConOut]:
		u = Usage{n[fConIn] + n[fConRead] + n[fConWrite], n[fConOut], n[fConRead], 0}
	case seen[fTokensIn] || seen[fTokensOut]:
		u = Usage{Input: n[fTokensIn], Output: n[fTokensOut]}
	case seen[fBilledIn] || seen[fBilledOut]:
		u = Usage{Input: n[fBilledIn], Output: n[fBilledOut]}
	case seen[fEvalIn] || seen[fEvalOut]:
		u = Usage{Input: n[fEvalIn], Output: n[fEvalOut]}
	default:
		return Usage{}, false
	}
	for i := range f.nums {
		if f.nums[i] < 0 {
			return Usage{}, false
		}
	}
	// Some count reasoning in the total only (simonw/llm-gemini#75).
	u.Output = max(u.Output, total-u.Input)
	return u, u.Input+u.Output > 0
}

// headerUsage reads the counts that Bedrock's InvokeModel has in its headers,
// where the body is the vendor's own.
func headerUsage(h http.Header) (Usage, bool) {
	const prefix = "X-Amzn-Bedrock-"
	in, out := first(h, prefix+"Input-Token-Count"), first(h, prefix+"Output-Token-Count")
	if in == "" && out == "" {
		return Usage{}, false
	}
	var f facts
	for _, c := range [...]struct {
		field field
		value string
	}{
		{fConIn, in},
		{fConOut, out},
		{fConRead, first(h, prefix+"Cache-Read-Input-Token-Count")},
		{fConWrite, first(h, prefix+"Cache-Write-Input-Token-Count")},
	} {
		if c.value != "" {
			f.number(c.field, []byte(c.value))
		}
	}
	return f.usage()
}

// ParseUsage reads the usage out of a whole body that is not a stream, or of
// the headers (Bedrock).
func ParseUsage(h http.Header, body []byte) (Usage, bool) {
	in := begin(nRoot)
	defer in.end()
	in.scan.write(body)
	if u, ok := in.facts.usage(); ok && !in.scan.open() {
		return u, true
	}
	return headerUsage(h)
}
