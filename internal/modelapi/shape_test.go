package modelapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

const (
	jsonType   = "Content-Type: application/json\n"
	sseType    = "Content-Type: text/event-stream\n"
	ndjsonType = "Content-Type: application/x-ndjson\n"
)

// TestJSONAnswers judges whole bodies under 200. Every row says what the answer
// is worth to the one who asked.
func TestJSONAnswers(t *testing.T) {
	t.Parallel()
	chat := func(choice string) string {
		return `{"id":"x","object":"chat.completion","choices":[` + choice + `],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`
	}
	tests := map[string]struct {
		body string
		want modelapi.Class
	}{
		"chat":                               {chat(`{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, content in parts":             {chat(`{"message":{"content":[{"type":"text","text":"hi"}]},"finish_reason":"stop"}`), modelapi.OK},
		"chat, thinking parts only":          {chat(`{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, no choice":                    {chat(``), modelapi.Empty},
		"chat, choices null":                 {`{"object":"chat.completion","choices":null}`, modelapi.Empty},
		"chat, choices missing":              {`{"object":"chat.completion","usage":{"prompt_tokens":5,"completion_tokens":0}}`, modelapi.Empty},
		"chat, known by its usage":           {`{"id":"x","usage":{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5}}`, modelapi.Empty},
		"chat, content null":                 {chat(`{"message":{"role":"assistant","content":null},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, content missing":              {chat(`{"message":{"role":"assistant"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, content empty":                {chat(`{"message":{"content":""},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, white space":                  {chat(`{"message":{"content":"  \n\t\u0020\u00a0 \u3000\u200B\uFEFF　"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, soft hyphens":                 {chat(`{"message":{"content":"` + "\u00ad" + `\u00ad"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, Hangul fillers":               {chat(`{"message":{"content":"` + "\u3164\u115f\u1160\uffa0" + `\u3164"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, blank Braille":                {chat(`{"message":{"content":"` + "\u2800" + `\u2800"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, marks without a letter":       {chat(`{"message":{"content":"` + "\ufe0f\u034f\u200e\u2066" + `\ufe0f\u007f"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, tag characters":               {chat(`{"message":{"content":"` + "\U000e0041" + `\udb40\udc41"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, an emoji":                     {chat(`{"message":{"content":"` + "\U0001f44d\ufe0f" + `"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, an escaped emoji":             {chat(`{"message":{"content":"\ud83d\udc4d"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, one ideograph":                {chat(`{"message":{"content":"` + "\u65e5" + `"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, Braille":                      {chat(`{"message":{"content":"` + "\u2801" + `"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, a private character":          {chat(`{"message":{"content":"` + "\ue000" + `"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, a sign":                       {chat(`{"message":{"content":"` + "\u2713" + `"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, white space, then text":       {chat(`{"message":{"content":" \n\u00e9"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, one letter not Latin":         {chat(`{"message":{"content":" 好"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, an emoji by escapes":          {chat(`{"message":{"content":"\ud83d\ude00"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, a quote":                      {chat(`{"message":{"content":"\""},"finish_reason":"stop"}`), modelapi.OK},
		"chat, no message":                   {chat(`{"index":0,"finish_reason":"stop"}`), modelapi.Empty},
		"chat, reasoning only":               {chat(`{"message":{"content":"","reasoning_content":"let me think"},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, tool call":                    {chat(`{"message":{"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}`), modelapi.OK},
		"chat, no tool call":                 {chat(`{"message":{"content":null,"tool_calls":[]},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, function call":                {chat(`{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}`), modelapi.OK},
		"chat, audio":                        {chat(`{"message":{"content":null,"audio":{"id":"a","data":"AAAA"}},"finish_reason":"stop"}`), modelapi.OK},
		"chat, refusal":                      {chat(`{"message":{"content":null,"refusal":"I cannot help with that."},"finish_reason":"stop"}`), modelapi.Refused},
		"chat, length":                       {chat(`{"message":{"content":"half of"},"finish_reason":"length"}`), modelapi.Truncated},
		"chat, length before a word":         {chat(`{"message":{"content":""},"finish_reason":"length"}`), modelapi.Truncated},
		"chat, content filter":               {chat(`{"message":{"content":""},"finish_reason":"content_filter"}`), modelapi.Refused},
		"chat, filter after some text":       {chat(`{"message":{"content":"some"},"finish_reason":"content_filter"}`), modelapi.Refused},
		"chat, one of two is good":           {chat(`{"index":0,"message":{"content":"half"},"finish_reason":"length"},{"index":1,"message":{"content":"whole"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, only the second is told":      {chat(`{"index":1,"message":{"content":"b"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, only the second, empty":       {chat(`{"index":1,"message":{"content":""},"finish_reason":"stop"}`), modelapi.Empty},
		"chat, both cut off":                 {chat(`{"message":{"content":"half"},"finish_reason":"length"},{"message":{"content":"half"},"finish_reason":"length"}`), modelapi.Truncated},
		"chat, the first is empty":           {chat(`{"message":{"content":""},"finish_reason":"stop"},{"message":{"content":"b"},"finish_reason":"stop"}`), modelapi.OK},
		"chat, more choices than told apart": {chat(strings.Repeat(`{"message":{"content":""},"finish_reason":"stop"},`, 20) + `{"message":{"content":"b"},"finish_reason":"stop"}`), modelapi.OK},
		"text completion":                    {`{"object":"text_completion","choices":[{"text":"hi","index":0,"finish_reason":"stop"}]}`, modelapi.OK},
		"text completion, empty":             {`{"object":"text_completion","choices":[{"text":"","index":0,"finish_reason":"stop"}]}`, modelapi.Empty},
		"no error":                           {`{"error":null,"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, modelapi.OK},
		"an error in the text":               {chat(`{"message":{"content":"{\"error\":{\"code\":500}}"},"finish_reason":"stop"}`), modelapi.OK},

		"Responses":                  {`{"object":"response","status":"completed","error":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}`, modelapi.OK},
		"Responses, empty":           {`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":""}]}]}`, modelapi.Empty},
		"Responses, nothing":         {`{"object":"response","status":"completed","output":[]}`, modelapi.Empty},
		"Responses, reasoning only":  {`{"object":"response","status":"completed","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]}]}`, modelapi.Empty},
		"Responses, tool call":       {`{"object":"response","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`, modelapi.OK},
		"Responses, refusal":         {`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`, modelapi.Refused},
		"Responses, incomplete":      {`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"hal"}]}]}`, modelapi.Truncated},
		"Responses, filtered":        {`{"object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`, modelapi.Refused},
		"Responses, no reason given": {`{"object":"response","status":"incomplete","incomplete_details":null,"output":[]}`, modelapi.Truncated},
		"Responses, in background":   {`{"object":"response","status":"queued","output":[]}`, modelapi.OK},

		"Anthropic":                   {`{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`, modelapi.OK},
		"Anthropic, empty":            {`{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}`, modelapi.Empty},
		"Anthropic, thinking only":    {`{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"}],"stop_reason":"end_turn"}`, modelapi.Empty},
		"Anthropic, tool use":         {`{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}`, modelapi.OK},
		"Anthropic, max tokens":       {`{"type":"message","role":"assistant","content":[{"type":"text","text":"hal"}],"stop_reason":"max_tokens"}`, modelapi.Truncated},
		"Anthropic, context window":   {`{"type":"message","role":"assistant","content":[{"type":"text","text":"hal"}],"stop_reason":"model_context_window_exceeded"}`, modelapi.Truncated},
		"Anthropic, refusal":          {`{"type":"message","role":"assistant","content":[],"stop_reason":"refusal"}`, modelapi.Refused},
		"Anthropic, stop at sequence": {`{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence"}`, modelapi.OK},

		"Gemini":                              {`{"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"finishReason":"STOP"}]}`, modelapi.OK},
		"Gemini, thought only":                {`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]},"finishReason":"STOP"}]}`, modelapi.Empty},
		"Gemini, thought and text":            {`{"candidates":[{"content":{"parts":[{"thought":true,"text":"hm"},{"text":"hi"}]},"finishReason":"STOP"}]}`, modelapi.OK},
		"Gemini, no parts":                    {`{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]}`, modelapi.Empty},
		"Gemini, function call":               {`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}`, modelapi.OK},
		"Gemini, image":                       {`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},"finishReason":"STOP"}]}`, modelapi.OK},
		"Gemini, max tokens":                  {`{"candidates":[{"content":{"parts":[{"text":"hal"}]},"finishReason":"MAX_TOKENS"}]}`, modelapi.Truncated},
		"Gemini, safety":                      {`{"candidates":[{"finishReason":"SAFETY"}]}`, modelapi.Refused},
		"Gemini, recitation":                  {`{"candidates":[{"content":{"parts":[{"text":"It was"}]},"finishReason":"RECITATION"}]}`, modelapi.Refused},
		"Gemini, malformed call":              {`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, modelapi.Empty},
		"Gemini, prompt blocked":              {`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5},"modelVersion":"g"}`, modelapi.Refused},
		"Gemini, no candidate":                {`{"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5},"modelVersion":"g"}`, modelapi.Empty},
		"Gemini, list of candidates is empty": {`{"candidates":[],"usageMetadata":{"promptTokenCount":5}}`, modelapi.Empty},

		"Converse":             {`{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn"}`, modelapi.OK},
		"Converse, empty":      {`{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}`, modelapi.Empty},
		"Converse, reasoning":  {`{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm"}}}]}},"stopReason":"end_turn"}`, modelapi.Empty},
		"Converse, tool use":   {`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"name":"f","input":{}}}]}},"stopReason":"tool_use"}`, modelapi.OK},
		"Converse, max tokens": {`{"output":{"message":{"role":"assistant","content":[{"text":"hal"}]}},"stopReason":"max_tokens"}`, modelapi.Truncated},
		"Converse, guardrail":  {`{"output":{"message":{"role":"assistant","content":[{"text":"blocked by policy"}]}},"stopReason":"guardrail_intervened"}`, modelapi.Refused},

		"Cohere":             {`{"id":"c","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]}}`, modelapi.OK},
		"Cohere, empty":      {`{"id":"c","finish_reason":"COMPLETE","message":{"role":"assistant","content":[]}}`, modelapi.Empty},
		"Cohere, tool call":  {`{"id":"c","finish_reason":"TOOL_CALL","message":{"role":"assistant","tool_calls":[{"id":"t"}]}}`, modelapi.OK},
		"Cohere, max tokens": {`{"id":"c","finish_reason":"MAX_TOKENS","message":{"role":"assistant","content":[{"type":"text","text":"hal"}]}}`, modelapi.Truncated},

		"Ollama chat":            {`{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}`, modelapi.OK},
		"Ollama chat, empty":     {`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`, modelapi.Empty},
		"Ollama chat, length":    {`{"model":"m","message":{"role":"assistant","content":"hal"},"done":true,"done_reason":"length"}`, modelapi.Truncated},
		"Ollama generate":        {`{"model":"m","response":"hi","done":true,"done_reason":"stop"}`, modelapi.OK},
		"Ollama generate, empty": {`{"model":"m","response":" ","done":true,"done_reason":"stop"}`, modelapi.Empty},
		"Ollama, model loaded":   {`{"model":"m","response":"","done":true,"done_reason":"load"}`, modelapi.OK},

		"DashScope":        {`{"output":{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}}`, modelapi.OK},
		"DashScope, empty": {`{"output":{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":""}}]}}`, modelapi.Empty},

		"embeddings":          {`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}],"model":"e","usage":{"prompt_tokens":5,"total_tokens":5}}`, modelapi.OK},
		"Gemini embedding":    {`{"embedding":{"values":[0.1,0.2]}}`, modelapi.OK},
		"models":              {`{"object":"list","data":[{"id":"m","object":"model"}]}`, modelapi.OK},
		"no models":           {`{"object":"list","data":[]}`, modelapi.OK},
		"count of tokens":     {`{"input_tokens":12}`, modelapi.OK},
		"an image":            {`{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":5,"output_tokens":9}}`, modelapi.OK},
		"a transcript":        {`{"text":""}`, modelapi.OK},
		"an unknown object":   {`{"status":"ok","content":"","message":"","output":null}`, modelapi.OK},
		"an empty object":     {`{}`, modelapi.OK},
		"an empty list":       {`[]`, modelapi.OK},
		"a failed job":        {`{"object":"fine_tuning.job","status":"failed","error":{"code":"invalid_training_file","message":"x"}}`, modelapi.OK},
		"an envelope":         {`{"code":0,"message":"success","data":{"choices":[]}}`, modelapi.OK},
		"a number":            {`42`, modelapi.OK},
		"a message elsewhere": {`{"type":"message","text":"a chat program's event","content":[]}`, modelapi.OK},
		"not JSON":            {`OK`, modelapi.OK},
		"nothing":             {``, modelapi.Empty},
		"only white space":    {" \r\n", modelapi.Empty},

		"cut off":                {`{"object":"chat.completion","choices":[{"message":{"content":"hal`, modelapi.Truncated},
		"cut off, any shape":     {`{"data":[1,2`, modelapi.Truncated},
		"cut off between chunks": {`[{"candidates":[{"content":{"parts":[{"text":"Two "}]}}]},`, modelapi.Truncated},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, chunk := range chunks {
				d := watched(t, response(200, jsonType, tt.body, chunk), tt.body)
				if d.Class != tt.want || d.InBody {
					t.Errorf("in chunks of %d: %v (in body %v), want %v", chunk, d.Class, d.InBody, tt.want)
				}
				if whole := !strings.HasPrefix(name, "cut off"); d.Ended != whole || (d.Err == nil) != whole {
					t.Errorf("in chunks of %d: ended %v, error %v", chunk, d.Ended, d.Err)
				}
			}
		})
	}
}

// TestStreams judges streams, read to their end.
func TestStreams(t *testing.T) {
	t.Parallel()
	events := func(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }
	const (
		first = `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
		word  = `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`
		stop  = `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	)
	tests := map[string]struct {
		header, body string
		want         modelapi.Class
		inner        int
	}{
		"chat":                          {sseType, events(first, word, stop, "[DONE]"), modelapi.OK, 0},
		"chat, no DONE":                 {sseType, events(first, word, stop), modelapi.OK, 0},
		"chat, only DONE":               {sseType, events(first, word, "[DONE]"), modelapi.OK, 0},
		"chat, no space":                {sseType, "data:" + word + "\n\ndata:" + stop + "\n\ndata:[DONE]\n\n", modelapi.OK, 0},
		"chat, CRLF":                    {sseType, strings.ReplaceAll(events(first, word, stop, "[DONE]"), "\n", "\r\n"), modelapi.OK, 0},
		"chat, CR":                      {sseType, strings.ReplaceAll(events(first, word, stop, "[DONE]"), "\n", "\r"), modelapi.OK, 0},
		"chat, no blank lines":          {sseType, strings.ReplaceAll(events(first, word, stop, "[DONE]"), "\n\n", "\n"), modelapi.OK, 0},
		"chat, comments and ids":        {sseType, ": ping\n\nid: 7\nretry: 10\n" + events(word, stop) + ":\n\n" + events("[DONE]"), modelapi.OK, 0},
		"chat, data on two lines":       {sseType, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\ndata: \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", modelapi.OK, 0},
		"chat, byte order mark":         {sseType, "\xef\xbb\xbf" + events(word, stop, "[DONE]"), modelapi.OK, 0},
		"chat, DONE without a line end": {sseType, "data: " + word + "\n\ndata: " + stop + "\n\ndata: [DONE]", modelapi.OK, 0},
		"chat, empty":                   {sseType, events(first, stop, "[DONE]"), modelapi.Empty, 0},
		"chat, white space":             {sseType, events(strings.Replace(word, "hi", `\n`, 1), stop, "[DONE]"), modelapi.Empty, 0},
		"chat, nothing but DONE":        {sseType, events("[DONE]"), modelapi.Empty, 0},
		"chat, length":                  {sseType, events(word, strings.Replace(stop, "stop", "length", 1), "[DONE]"), modelapi.Truncated, 0},
		"chat, filter":                  {sseType, events(word, strings.Replace(stop, "stop", "content_filter", 1), "[DONE]"), modelapi.Refused, 0},
		"chat, tool call":               {sseType, events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}`, strings.Replace(stop, "stop", "tool_calls", 1), "[DONE]"), modelapi.OK, 0},
		"chat, breaks off":              {sseType, events(first, word), modelapi.Truncated, 0},
		"chat, breaks off in an event":  {sseType, "data: " + word + "\n\ndata: {\"choices\":[", modelapi.Truncated, 0},
		"chat, error":                   {sseType, events(word, `{"error":{"message":"The server had an error","type":"server_error","code":null}}`), modelapi.ServerError, 500},
		"chat, error by number":         {sseType, events(word, `{"error":{"message":"slow down","code":429}}`), modelapi.RateLimited, 429},
		"chat, error by string":         {sseType, events(`{"error":"model not loaded"}`), modelapi.ServerError, 500},
		"chat, error event":             {sseType, "event: error\ndata: {\"message\":\"went wrong\",\"code\":\"429\"}\n\n", modelapi.RateLimited, 429},
		"chat, error in a choice":       {sseType, events(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"provider"}}]}`), modelapi.ServerError, 502},
		"chat, finish error":            {sseType, events(word, strings.Replace(stop, "stop", "error", 1), "[DONE]"), modelapi.ServerError, 500},
		"nothing":                       {sseType, "", modelapi.Empty, 0},
		"nothing but comments":          {sseType, ": ping\n\n: ping\n\n", modelapi.Empty, 0},
		"JSON under its name":           {sseType, `{"error":{"message":"no","type":"insufficient_quota"}}`, modelapi.Quota, 402},
		"unknown events":                {sseType, "event: endpoint\ndata: /messages?id=1\n\ndata: {\"jsonrpc\":\"2.0\",\"result\":{}}\n\n", modelapi.OK, 0},

		"Responses, nothing": {sseType, events(`{"type":"response.created","response":{"object":"response","status":"in_progress","output":[]}}`,
			`{"type":"response.completed","response":{"object":"response","status":"completed","output":[]}}`), modelapi.Empty, 0},
		"Responses, tool call": {sseType, events(`{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}`,
			`{"type":"response.completed","response":{"status":"completed","output":[]}}`), modelapi.OK, 0},
		"Responses, reasoning only": {sseType, events(`{"type":"response.output_item.added","item":{"type":"reasoning","summary":[]}}`,
			`{"type":"response.reasoning_summary_text.delta","delta":"hm"}`, `{"type":"response.completed","response":{"status":"completed","output":[]}}`), modelapi.Empty, 0},
		"Responses, refusal": {sseType, events(`{"type":"response.refusal.delta","delta":"no"}`, `{"type":"response.completed","response":{"status":"completed"}}`), modelapi.Refused, 0},
		"Responses, incomplete": {sseType, events(`{"type":"response.output_text.delta","delta":"hal"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`), modelapi.Truncated, 0},
		"Responses, failed":                {sseType, events(`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}}`), modelapi.RateLimited, 429},
		"Responses, failed without a word": {sseType, events(`{"type":"response.failed","response":{"status":"failed","error":null}}`), modelapi.ServerError, 500},
		"Responses, error":                 {sseType, events(`{"type":"error","code":"server_error","message":"x","param":null}`), modelapi.ServerError, 500},
		"Responses, breaks off":            {sseType, events(`{"type":"response.output_text.delta","delta":"hal"}`), modelapi.Truncated, 0},

		"Anthropic, tool use": {sseType, events(`{"type":"message_start","message":{"role":"assistant","content":[]}}`,
			`{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`), modelapi.OK, 0},
		"Anthropic, thinking only": {sseType, events(`{"type":"message_start","message":{"role":"assistant","content":[]}}`,
			`{"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`), modelapi.Empty, 0},
		"Anthropic, max tokens": {sseType, events(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hal"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`), modelapi.Truncated, 0},
		"Anthropic, refusal": {sseType, events(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, `{"type":"message_stop"}`), modelapi.Refused, 0},
		"Anthropic, breaks off": {sseType, events(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`), modelapi.Truncated, 0},

		"Gemini, safety":                        {sseType, events(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`, `{"candidates":[{"finishReason":"SAFETY"}]}`), modelapi.Refused, 0},
		"Gemini, stop in every chunk, then cut": {sseType, events(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, `{"candidates":[{"finishReason":"MAX_TOKENS"}]}`), modelapi.Truncated, 0},
		"Gemini, error":                         {sseType, events(`{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`), modelapi.Overloaded, 503},
		"Gemini, breaks off":                    {sseType, events(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`), modelapi.Truncated, 0},

		"Cohere": {sseType, events(`{"type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}`,
			`{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}`,
			`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"hi"}}}}`,
			`{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":5,"output_tokens":1}}}}`), modelapi.OK, 0},
		"Cohere, empty": {sseType, events(`{"type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}`,
			`{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`), modelapi.Empty, 0},
		"Cohere, error": {sseType, events(`{"type":"message-end","delta":{"finish_reason":"ERROR"}}`), modelapi.ServerError, 500},

		"Ollama":             {ndjsonType, `{"message":{"role":"assistant","content":"hi"},"done":false}` + "\n" + `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":1}` + "\n", modelapi.OK, 0},
		"Ollama, empty":      {ndjsonType, `{"message":{"role":"assistant","content":""},"done":false}` + "\n" + `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}` + "\n", modelapi.Empty, 0},
		"Ollama, error":      {ndjsonType, `{"message":{"role":"assistant","content":"hi"},"done":false}` + "\n" + `{"error":"an error was encountered while running the model"}` + "\n", modelapi.ServerError, 500},
		"Ollama, breaks off": {ndjsonType, `{"message":{"role":"assistant","content":"hi"},"done":false}` + "\n" + `{"mess`, modelapi.Truncated, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, chunk := range chunks {
				d := watched(t, response(200, tt.header, tt.body, chunk), tt.body)
				if d.Class != tt.want || d.Inner != tt.inner || d.InBody != (tt.inner != 0) {
					t.Errorf("in chunks of %d: %v, inner %d, in body %v, want %v, %d", chunk, d.Class, d.Inner, d.InBody, tt.want, tt.inner)
				}
				if whole := !strings.Contains(name, "breaks off"); d.Ended != whole || (d.Err == nil) != whole {
					t.Errorf("in chunks of %d: ended %v, error %v", chunk, d.Ended, d.Err)
				}
			}
		})
	}
}

// TestErrors judges error bodies, under their own status and under 200.
func TestErrors(t *testing.T) {
	t.Parallel()
	type V = modelapi.Verdict
	tests := map[string]struct {
		status       int
		header, body string
		want         V
	}{
		"error under 200, retryable":  {200, jsonType, `{"error":{"code":429,"message":"slow"}}`, V{Class: modelapi.RateLimited, Inner: 429, Code: "429", Text: "slow", InBody: true}},
		"error under 200, final":      {200, jsonType, `{"error":{"code":400,"message":"bad"}}`, V{Class: modelapi.BadRequest, Inner: 400, Code: "400", Text: "bad", InBody: true}},
		"error under 200, in choices": {200, jsonType, `{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":502,"message":"up"}}]}`, V{Class: modelapi.ServerError, Inner: 502, Code: "502", Text: "up", InBody: true}},
		"error under 200, string":     {200, jsonType, `{"error":"boom"}`, V{Class: modelapi.ServerError, Inner: 500, Text: "boom", InBody: true}},
		"error under 200, true":       {200, jsonType, `{"error":true,"message":"boom"}`, V{Class: modelapi.ServerError, Inner: 500, Text: "boom", InBody: true}},
		"error under 200, unknown":    {200, jsonType, `{"error":{"type":"weird_thing"}}`, V{Class: modelapi.ServerError, Inner: 500, Code: "weird_thing", InBody: true}},
		"error under 200, with a hint": {
			200, jsonType + "Retry-After: 3\n", `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`,
			V{Class: modelapi.RateLimited, Inner: 429, Code: "rate_limit_error", Text: "m", InBody: true, Wait: 3 * time.Second, Waits: true},
		},
		"error under 200, Gemini":          {200, jsonType, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m","details":[{"retryDelay":"45.837906927s"}]}}]`, V{Class: modelapi.RateLimited, Inner: 429, Code: "RESOURCE_EXHAUSTED", Text: "m", InBody: true, Wait: 45837906927, Waits: true}},
		"error under 200, Responses":       {200, jsonType, `{"object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`, V{Class: modelapi.ServerError, Inner: 500, Code: "server_error", Text: "m", InBody: true}},
		"error under 200, vLLM":            {200, jsonType, `{"object":"error","message":"m","type":"NotFoundError","code":404}`, V{Class: modelapi.BadRequest, Inner: 404, Code: "NotFoundError", Text: "m", InBody: true}},
		"finish error under 200":           {200, jsonType, `{"choices":[{"message":{"content":"a"},"finish_reason":"insufficient_system_resource"}]}`, V{Class: modelapi.ServerError, Inner: 500, Code: "insufficient_system_resource", InBody: true}},
		"refused":                          {200, jsonType, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"modelVersion":"g"}`, V{Class: modelapi.Refused, Code: "PROHIBITED_CONTENT"}},
		"cut off at the limit":             {200, jsonType, `{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}`, V{Class: modelapi.Truncated, Code: "length"}},
		"no error under 200, empty object": {200, jsonType, `{"error":{},"data":[]}`, V{Class: modelapi.OK}},
		"no error under 200, false":        {200, jsonType, `{"error":false,"data":[]}`, V{Class: modelapi.OK}},
		"no error under 200, empty string": {200, jsonType, `{"error":"","data":[]}`, V{Class: modelapi.OK}},

		"quota whatever the status":   {403, jsonType, `{"error":{"code":"insufficient_quota"}}`, V{Class: modelapi.Quota, Code: "insufficient_quota"}},
		"quota by its type":           {429, jsonType, `{"error":{"type":"insufficient_quota","code":null,"message":"m"}}`, V{Class: modelapi.Quota, Code: "insufficient_quota", Text: "m"}},
		"billing limit":               {429, jsonType, `{"error":{"code":"billing_hard_limit_reached","type":"invalid_request_error"}}`, V{Class: modelapi.Quota, Code: "billing_hard_limit_reached"}},
		"billing by status":           {402, jsonType, `{"type":"error","error":{"type":"billing_error","message":"m"}}`, V{Class: modelapi.Quota, Code: "billing_error", Text: "m"}},
		"credit by its text":          {400, jsonType, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, V{Class: modelapi.Quota, Code: "invalid_request_error", Text: "Your credit balance is too low to access the API."}},
		"quota policy of a gateway":   {403, jsonType, `{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 01:12:33."}`, V{Class: modelapi.Quota, Text: "Out of call volume quota. Quota will be replenished in 01:12:33."}},
		"AWS quota":                   {400, jsonType + "X-Amzn-Errortype: ServiceQuotaExceededException:http://internal/\n", `{"message":"m"}`, V{Class: modelapi.Quota, Code: "ServiceQuotaExceededException", Text: "m"}},
		"AWS throttling by 400":       {400, jsonType, `{"__type":"com.amazon#ThrottlingException","message":"m"}`, V{Class: modelapi.RateLimited, Code: "com.amazon#ThrottlingException", Text: "m"}},
		"Cohere trial":                {429, jsonType, `{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}`, V{Class: modelapi.Quota, Text: "You are using a Trial key, which is limited to 1000 API calls / month."}},
		"Cohere":                      {429, jsonType, `{"message":"too many requests"}`, V{Class: modelapi.RateLimited, Text: "too many requests"}},
		"Gemini, not on this plan":    {429, jsonType, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded for metric: x, limit: 0, model: y"}}`, V{Class: modelapi.Quota, Code: "RESOURCE_EXHAUSTED", Text: "Quota exceeded for metric: x, limit: 0, model: y"}},
		"Gemini, per day by metadata": {429, jsonType, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"RequestsPerDay"}}]}}`, V{Class: modelapi.QuotaPerDay, Code: "RESOURCE_EXHAUSTED"}},
		"Gemini, key":                 {400, jsonType, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, V{Class: modelapi.Auth, Code: "INVALID_ARGUMENT", Text: "API key not valid."}},
		"Gemini, garbled delay":       {429, jsonType, `{"error":{"code":429,"details":[{"retryDelay":"-3s"}]}}`, V{Class: modelapi.RateLimited, Code: "429"}},
		"Gemini, header before body":  {429, jsonType + "Retry-After: 5\n", `{"error":{"code":429,"details":[{"retryDelay":"30s"}]}}`, V{Class: modelapi.RateLimited, Code: "429", Wait: 5 * time.Second, Waits: true}},
		"one request above the limit": {429, jsonType, `{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Request too large for m on tokens per min (TPM): Limit 10000, Requested 15,000."}}`, V{Class: modelapi.BadRequest, Code: "rate_limit_exceeded", Text: "Request too large for m on tokens per min (TPM): Limit 10000, Requested 15,000."}},
		"Moonshot, overloaded":        {429, jsonType, `{"error":{"type":"engine_overloaded_error","message":"m"}}`, V{Class: modelapi.Overloaded, Code: "engine_overloaded_error", Text: "m"}},
		"overloaded under 500":        {500, jsonType, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, V{Class: modelapi.Overloaded, Code: "overloaded_error", Text: "m"}},
		"Google, rate limit by 403":   {403, jsonType, `{"error":{"code":403,"message":"m","errors":[{"reason":"userRateLimitExceeded"}],"status":"userRateLimitExceeded"}}`, V{Class: modelapi.RateLimited, Code: "userRateLimitExceeded", Text: "m"}},
		"not found":                   {404, jsonType, `{"error":{"type":"not_found_error","message":"m"}}`, V{Class: modelapi.BadRequest, Code: "not_found_error", Text: "m"}},
		"FastAPI":                     {422, jsonType, `{"detail":"field required"}`, V{Class: modelapi.BadRequest, Text: "field required"}},
		"Cloudflare":                  {500, jsonType, `{"success":false,"errors":[{"code":3040,"message":"Capacity temporarily exceeded"}]}`, V{Class: modelapi.ServerError, Code: "3040", Text: "Capacity temporarily exceeded"}},
		"plain text":                  {502, "Content-Type: text/plain\n", "upstream connect error\nmore", V{Class: modelapi.ServerError, Text: "upstream connect error"}},
		"HTML without a title":        {502, "Content-Type: text/html\n", "<html>Bad Gateway</html>", V{Class: modelapi.ServerError}},
		"nothing":                     {500, "", "", V{Class: modelapi.ServerError}},
		"should not":                  {500, "X-Should-Retry: false\n", "", V{Class: modelapi.ServerError, Should: true}},
		"escapes and secrets":         {401, jsonType, `{"error":{"message":"Incorrect API key \u201csk-proj-0123456789abcdef\u201d:\tsee \"docs\" \ud83d\ude00"}}`, V{Class: modelapi.Auth, Text: "Incorrect API key “REDACTED”:\tsee \"docs\" 😀"}},
		"compressed":                  {429, jsonType + "Content-Encoding: gzip\nRetry-After: 1\n", "\x1f\x8b\x08", V{Class: modelapi.RateLimited, Wait: time.Second, Waits: true}},
		"not text":                    {500, "Content-Type: text/plain\n", "\x00\x01", V{Class: modelapi.ServerError}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Status, tt.want.Ended = tt.status, true
			for _, chunk := range chunks {
				got := watched(t, response(tt.status, tt.header, tt.body, chunk), tt.body)
				if d := cmp.Diff(got, tt.want); d != "" {
					t.Errorf("in chunks of %d (-got +want):\n%s", chunk, d)
				}
			}
		})
	}
}

// TestWordsUnder200: without a status of its own an error under 200 is told by
// its words, wherever the provider puts them.
func TestWordsUnder200(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		class modelapi.Class
		inner int
	}{
		"rate_limit_exceeded": {modelapi.RateLimited, 429}, "rate_limit_error": {modelapi.RateLimited, 429},
		"ThrottlingException": {modelapi.RateLimited, 429}, "RESOURCE_EXHAUSTED": {modelapi.RateLimited, 429},
		"insufficient_quota": {modelapi.Quota, 402}, "billing_error": {modelapi.Quota, 402},
		"overloaded_error": {modelapi.Overloaded, 529}, "UNAVAILABLE": {modelapi.Overloaded, 503},
		"ModelNotReadyException": {modelapi.Overloaded, 503},
		"authentication_error":   {modelapi.Auth, 401}, "PERMISSION_DENIED": {modelapi.Auth, 401},
		"invalid_request_error": {modelapi.BadRequest, 400}, "NOT_FOUND": {modelapi.BadRequest, 400},
		"timeout_error": {modelapi.Timeout, 504}, "DEADLINE_EXCEEDED": {modelapi.Timeout, 504},
		"server_error": {modelapi.ServerError, 500}, "api_error": {modelapi.ServerError, 500}, "no_such_word": {modelapi.ServerError, 500},
	}
	for word, want := range tests {
		for _, member := range []string{"code", "type", "status"} {
			body := `{"error":{"` + member + `":"` + word + `","message":"m"}}`
			d := watched(t, response(200, jsonType, body, 5), body)
			if d.Class != want.class || d.Inner != want.inner || d.Effective() != want.inner || d.Code != word || !d.InBody {
				t.Errorf("%s: %+v", body, d)
			}
		}
	}
	body := `{"error":{"details":[{"violations":[{"quotaId":"RequestsPerDay"}]}],"message":"m"}}`
	if d := watched(t, response(200, jsonType, body, 0), body); d.Class != modelapi.QuotaPerDay || d.Inner != 429 {
		t.Errorf("%+v", d)
	}
	body = `{"id":"c","finish_reason":"TIMEOUT","message":{"role":"assistant","content":[]}}`
	if d := watched(t, response(200, jsonType, body, 0), body); d.Class != modelapi.Timeout || d.Inner != 504 || d.Code != "TIMEOUT" {
		t.Errorf("%+v", d)
	}
}
