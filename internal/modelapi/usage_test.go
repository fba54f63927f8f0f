package modelapi_test

import (
	"testing"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

func TestParseUsage(t *testing.T) {
	t.Parallel()
	type U = modelapi.Usage
	tests := map[string]struct {
		header, body string
		want         U
		ok           bool
	}{
		"OpenAI, cached inside": {"", `{"usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":800}}}`, U{1000, 50, 800, 0}, true},
		"Anthropic, cached beside": {
			"", `{"usage":{"input_tokens":150,"cache_read_input_tokens":12000,"cache_creation_input_tokens":3000,"output_tokens":50}}`,
			U{15150, 50, 12000, 0},
			true,
		},
		"a proxy's mixture":                  {"", `{"usage":{"prompt_tokens":1000,"completion_tokens":5,"cache_read_input_tokens":800,"cache_creation_input_tokens":100}}`, U{1000, 5, 0, 0}, true},
		"embeddings":                         {"", `{"usage":{"prompt_tokens":5,"total_tokens":5}}`, U{5, 0, 0, 0}, true},
		"reasoning in the total only":        {"", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}}}`, U{10, 105, 0, 100}, true},
		"Gemini, thoughts in the total only": {"", `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":115}}`, U{10, 105, 0, 0}, true},
		"Gemini, tool use":                   {"", `{"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":7,"candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":25}}`, U{17, 8, 0, 3}, true},
		"Converse":                           {"", `{"usage":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":4,"cacheWriteInputTokens":8}}`, U{13, 2, 4, 0}, true},
		"Cohere, floats":                     {"", `{"usage":{"tokens":{"input_tokens":12.0,"output_tokens":3.5}}}`, U{12, 4, 0, 0}, true},
		"Cohere, billed only":                {"", `{"usage":{"billed_units":{"input_tokens":12,"output_tokens":3}}}`, U{12, 3, 0, 0}, true},
		"Ollama":                             {"", `{"prompt_eval_count":7,"eval_count":3,"done":true}`, U{7, 3, 0, 0}, true},
		"Groq":                               {"", `{"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":3}}}`, U{7, 3, 0, 0}, true},
		"headers":                            {"X-Amzn-Bedrock-Input-Token-Count: 7\nX-Amzn-Bedrock-Output-Token-Count: 3\nX-Amzn-Bedrock-Cache-Write-Input-Token-Count: 5\n", `{"vendor":"own"}`, U{12, 3, 0, 0}, true},
		"body before headers":                {"X-Amzn-Bedrock-Input-Token-Count: 9\n", `{"usage":{"input_tokens":7,"output_tokens":3}}`, U{7, 3, 0, 0}, true},

		"none":             {"", `{"choices":[]}`, U{}, false},
		"null":             {"", `{"usage":null}`, U{}, false},
		"zeros":            {"", `{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, U{}, false},
		"negative":         {"", `{"usage":{"prompt_tokens":100,"completion_tokens":-5}}`, U{}, false},
		"negative part":    {"", `{"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-1}}}`, U{}, false},
		"overflow":         {"", `{"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":5}}`, U{}, false},
		"huge":             {"", `{"usage":{"prompt_tokens":1e300,"completion_tokens":5}}`, U{}, false},
		"words":            {"", `{"usage":{"prompt_tokens":"many","completion_tokens":5}}`, U{}, false},
		"inside a text":    {"", `{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1}"}}]}`, U{}, false},
		"a key in a text":  {"", `{"x":"}","y":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}`, U{}, false},
		"below the choice": {"", `{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":1}}]}`, U{}, false},
		"cut off":          {"", `{"usage":{"prompt_tokens":1,"completion_tokens":1}`, U{}, false},
		"bad headers":      {"X-Amzn-Bedrock-Input-Token-Count: -7\nX-Amzn-Bedrock-Output-Token-Count: 3\n", ``, U{}, false},
		"nothing":          {"", ``, U{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := modelapi.ParseUsage(headerOf(tt.header), []byte(tt.body))
			if got != tt.want || ok != tt.ok {
				t.Errorf("%+v, %v, want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	type R = modelapi.Request
	tests := map[string]struct {
		path, body string
		want       R
	}{
		"OpenAI":            {"/v1/chat/completions", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"\"n\":9,\"stream\":true"}]}`, R{"m", 100, false}},
		"the larger cap":    {"", `{"model":"m","max_tokens":1,"max_completion_tokens":10000}`, R{"m", 10000, false}},
		"in either order":   {"", `{"model":"m","max_completion_tokens":10000,"max_tokens":1}`, R{"m", 10000, false}},
		"several answers":   {"", `{"model":"m","max_tokens":100,"n":3,"stream":true}`, R{"m", 300, true}},
		"overflow":          {"", `{"model":"m","max_tokens":9007199254740992,"n":9007199254740992}`, R{"m", 1<<63 - 1, false}},
		"Responses":         {"/v1/responses", `{"model":"m","max_output_tokens":50,"stream":true}`, R{"m", 50, true}},
		"Gemini":            {"/v1beta/models/gemini-x:streamGenerateContent", `{"generationConfig":{"maxOutputTokens":70,"candidateCount":2}}`, R{"gemini-x", 140, true}},
		"Vertex":            {"/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent", `{}`, R{"gemini-x", 0, false}},
		"Converse":          {"/model/anthropic.claude-x%3A0/converse", `{"inferenceConfig":{"maxTokens":80}}`, R{"anthropic.claude-x:0", 80, false}},
		"Converse, stream":  {"/model/m/converse-stream", `{}`, R{"m", 0, true}},
		"InvokeModel":       {"/model/m/invoke-with-response-stream", `{"max_gen_len":9}`, R{"m", 9, true}},
		"Titan":             {"/model/m/invoke", `{"textGenerationConfig":{"maxTokenCount":9}}`, R{"m", 9, false}},
		"Azure":             {"/openai/deployments/d/chat/completions", `{"messages":[]}`, R{"d", 0, false}},
		"Ollama":            {"/api/chat", `{"model":"m","options":{"num_predict":-1}}`, R{"m", 0, false}},
		"list of models":    {"/v1/models/m", ``, R{"", 0, false}},
		"nested cap":        {"", `{"model":"m","tools":[{"max_tokens":5,"model":"x"}]}`, R{"m", 0, false}},
		"not JSON":          {"/", `model=m`, R{}},
		"cap is a word":     {"", `{"model":"m","max_tokens":"all"}`, R{"m", 0, false}},
		"model is a number": {"", `{"model":5}`, R{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := modelapi.ParseRequest(tt.path, []byte(tt.body)); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
