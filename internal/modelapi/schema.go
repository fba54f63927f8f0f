package modelapi

import "maps"

// node is a place in a document that means something. Arrays are transparent:
// their elements stand where the array stands, so one table serves lists of
// choices, chunks in one JSON array, and single objects alike.
type node uint8

// The nodes. Everything that is not named here is nSkip.
const (
	nSkip node = iota
	nRoot
	nResp     // a Responses object inside a stream event; a string in Ollama
	nChoice   // an element of choices or candidates
	nMessage  // an assistant message; a string in some error bodies
	nContent  // a string, a part, or a list of parts
	nOutput   // output of Responses and Converse
	nItem     // an item or content block of a stream event
	nDelta    // what a stream event adds
	nTool     // a tool call, or another answer that is not text
	nText     // the text of a part
	nPlain    // text outside a part
	nRefusal  // the model's own refusal
	nPartType // the type of a part
	nThought  // Gemini's mark of a part that is not the answer
	nType
	nObject
	nStatus
	nFinish
	nIndex
	nRole
	nDone
	nIncomplete // Responses' incomplete_details
	nFeedback   // Gemini's promptFeedback
	nBlock      // its blockReason
	nExtra      // an envelope that may hold usage and error
	nError
	nErrors
	nErrCode
	nErrType
	nErrStatus
	nErrText
	nDetails
	nQuotaID
	nQuotaValue
	nRetryDelay
	nReason
	nUsage
	nInputDetails
	nOutputDetails
	nGemini // usageMetadata
	nBilled
	nTokens
	nRequest // the root of a request
	nGenConfig
	nModel
	nStream
	nVersion  // Gemini's modelVersion, which only generated answers have
	nRootCode // a code beside no error, or at the top of an error body
	nRootText
	nNum // the first of the numbers; n-nNum is the field
)

// field is a number kept from a document.
type field uint8

const (
	fPrompt field = iota
	fCompletion
	fTotal
	fInput
	fOutput
	fCacheNew
	fCacheRead
	fCached
	fReasoning
	fGemPrompt
	fGemCandidates
	fGemThoughts
	fGemTool
	fGemCached
	fGemTotal
	fConIn
	fConOut
	fConRead
	fConWrite
	fBilledIn
	fBilledOut
	fTokensIn
	fTokensOut
	fEvalIn
	fEvalOut
	fMax
	fCount
	numFields
)

// keep is how much of a value is kept.
type keep uint8

const (
	keepNone keep = iota
	keepText      // whether there is any text in it
	keepWord      // a short string, a number or a literal
	keepLong      // a message
)

const (
	wordLimit = 128
	longLimit = 2 << 10 // more than is shown, since it is scrubbed before it is cut
)

var keeps = withNumbers([256]keep{
	nResp: keepText, nMessage: keepLong, nContent: keepText, nOutput: keepText, nDelta: keepText,
	nText: keepText, nPlain: keepText, nRefusal: keepText,
	nChoice: keepWord, nPartType: keepWord, nThought: keepWord, nType: keepWord, nObject: keepWord, nStatus: keepWord,
	nFinish: keepWord, nIndex: keepWord, nRole: keepWord, nDone: keepWord, nBlock: keepWord,
	nError: keepLong, nErrCode: keepWord, nErrType: keepWord, nErrStatus: keepWord, nErrText: keepLong,
	nQuotaID: keepWord, nQuotaValue: keepWord, nRetryDelay: keepWord, nReason: keepWord,
	nModel: keepWord, nStream: keepWord, nVersion: keepWord, nRootCode: keepWord, nRootText: keepLong,
})

func withNumbers(k [256]keep) [256]keep {
	for f := range numFields {
		k[nNum+node(f)] = keepWord
	}
	return k
}

// next says where a key leads. Both spellings of a name are listed where an API
// has two.
var next = [256]map[string]node{
	nRoot: {
		"choices": nChoice, "candidates": nChoice, "content": nContent, "message": nMessage, "output": nOutput,
		"response": nResp, "delta": nDelta, "content_block": nItem, "item": nItem,
		"type": nType, "object": nObject, "status": nStatus, "role": nRole, "done": nDone,
		"stop_reason": nFinish, "stopReason": nFinish, "finish_reason": nFinish, "done_reason": nFinish,
		"incomplete_details": nIncomplete, "promptFeedback": nFeedback, "prompt_feedback": nFeedback,
		"error": nError, "errors": nErrors, "code": nRootCode, "__type": nRootCode, "detail": nRootText, "Message": nRootText,
		"modelVersion": nVersion,
		"usage":        nUsage, "usageMetadata": nGemini, "usage_metadata": nGemini, "x_groq": nExtra,
		"prompt_eval_count": nNum + node(fEvalIn), "eval_count": nNum + node(fEvalOut),
	},
	nResp: {
		"object": nObject, "status": nStatus, "output": nOutput, "incomplete_details": nIncomplete,
		"error": nError, "usage": nUsage,
	},
	nExtra: {"usage": nUsage, "error": nError},
	nChoice: {
		"index": nIndex, "finish_reason": nFinish, "finishReason": nFinish, "message": nMessage, "delta": nMessage,
		"text": nPlain, "content": nContent, "error": nError,
	},
	nMessage: {
		"role": nRole, "content": nContent, "tool_calls": nTool, "toolCalls": nTool, "function_call": nTool,
		"audio": nTool, "images": nTool, "refusal": nRefusal, "usage": nUsage, "stop_reason": nFinish,
	},
	nContent: parts(nil),
	nItem:    parts(nil),
	nOutput:  parts(map[string]node{"message": nMessage, "choices": nChoice}),
	nDelta: {
		"text": nPlain, "message": nMessage, "stop_reason": nFinish, "finish_reason": nFinish, "usage": nUsage,
	},
	nIncomplete: {"reason": nFinish},
	nFeedback:   {"blockReason": nBlock, "block_reason": nBlock},
	nError: {
		"code": nErrCode, "type": nErrType, "status": nErrStatus, "message": nErrText, "msg": nErrText,
		"details": nDetails, "error": nError,
	},
	nErrors: {"code": nRootCode, "message": nRootText},
	nDetails: {
		"violations": nDetails, "quotaId": nQuotaID, "quotaValue": nQuotaValue, "retryDelay": nRetryDelay,
		"reason": nReason, "metadata": nDetails, "quota_limit": nQuotaID, "quota_limit_value": nQuotaValue,
	},
	nUsage: {
		"prompt_tokens": nNum + node(fPrompt), "completion_tokens": nNum + node(fCompletion), "total_tokens": nNum + node(fTotal),
		"input_tokens": nNum + node(fInput), "output_tokens": nNum + node(fOutput),
		"cache_creation_input_tokens": nNum + node(fCacheNew), "cache_read_input_tokens": nNum + node(fCacheRead),
		"prompt_tokens_details": nInputDetails, "input_tokens_details": nInputDetails,
		"completion_tokens_details": nOutputDetails, "output_tokens_details": nOutputDetails,
		"inputTokens": nNum + node(fConIn), "outputTokens": nNum + node(fConOut),
		"cacheReadInputTokens": nNum + node(fConRead), "cacheWriteInputTokens": nNum + node(fConWrite),
		"billed_units": nBilled, "tokens": nTokens,
	},
	nInputDetails:  {"cached_tokens": nNum + node(fCached)},
	nOutputDetails: {"reasoning_tokens": nNum + node(fReasoning)},
	nGemini: {
		"promptTokenCount": nNum + node(fGemPrompt), "candidatesTokenCount": nNum + node(fGemCandidates),
		"thoughtsTokenCount": nNum + node(fGemThoughts), "toolUsePromptTokenCount": nNum + node(fGemTool),
		"cachedContentTokenCount": nNum + node(fGemCached), "totalTokenCount": nNum + node(fGemTotal),
	},
	nBilled: {"input_tokens": nNum + node(fBilledIn), "output_tokens": nNum + node(fBilledOut)},
	nTokens: {"input_tokens": nNum + node(fTokensIn), "output_tokens": nNum + node(fTokensOut)},
	nRequest: {
		"model": nModel, "stream": nStream, "n": nNum + node(fCount),
		"max_tokens": nNum + node(fMax), "max_completion_tokens": nNum + node(fMax), "max_output_tokens": nNum + node(fMax),
		"max_tokens_to_sample": nNum + node(fMax), "max_gen_len": nNum + node(fMax), "maxTokens": nNum + node(fMax),
		"generationConfig": nGenConfig, "generation_config": nGenConfig, "inferenceConfig": nGenConfig,
		"textGenerationConfig": nGenConfig, "options": nGenConfig,
	},
	nGenConfig: {
		"maxOutputTokens": nNum + node(fMax), "max_output_tokens": nNum + node(fMax), "maxTokens": nNum + node(fMax),
		"maxTokenCount": nNum + node(fMax), "num_predict": nNum + node(fMax),
		"candidateCount": nNum + node(fCount), "candidate_count": nNum + node(fCount),
	},
}

// parts returns the keys of a content part, and more.
func parts(more map[string]node) map[string]node {
	m := map[string]node{
		"type": nPartType, "text": nText, "thought": nThought, "refusal": nRefusal, "parts": nContent, "content": nContent,
	}
	for _, k := range []string{
		"functionCall", "function_call", "inlineData", "inline_data", "fileData", "file_data", "executableCode",
		"executable_code", "codeExecutionResult", "code_execution_result", "toolUse", "image", "video", "document",
	} {
		m[k] = nTool
	}
	maps.Copy(m, more)
	return m
}
