package modelapi

import "strings"

// finish is how an answer, or one choice of it, came to its end.
type finish uint8

const (
	finNone finish = iota
	finStop
	finLength
	finRefused
	finError
	finTimeout
	finLoad // Ollama loaded or unloaded a model: there is nothing to say
)

// finishOf reads a finish or stop reason of any provider.
func finishOf(b []byte) finish {
	switch strings.ToLower(string(b)) {
	case "", "null":
		return finNone
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "error_limit":
		return finLength
	case "content_filter", "content_filtered", "guardrail_intervened", "refusal", "safety", "recitation", "language",
		"blocklist", "prohibited_content", "spii", "image_safety", "image_prohibited_content", "image_recitation",
		"error_toxic", "sensitive":
		return finRefused
	case "error", "network_error", "insufficient_system_resource":
		return finError
	case "timeout":
		return finTimeout
	case "load", "unload":
		return finLoad
	}
	return finStop
}

// partKind is what a content part is.
type partKind uint8

const (
	partPlain   partKind = iota // text, or a part without a type
	partThought                 // reasoning: not the answer
	partFrame                   // a message around other parts
	partOther                   // tool calls, images and the like: an answer
)

func partKindOf(b []byte) partKind {
	switch string(b) {
	case "text", "output_text", "text_delta", "refusal":
		return partPlain
	case "thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text":
		return partThought
	case "message":
		return partFrame
	}
	return partOther
}

// kind is what the root of a document says it is.
type kind uint8

const (
	kindNone     kind = iota
	kindMessage       // an Anthropic message
	kindEvent         // an event of an Anthropic stream
	kindEnd           // the event that ends a stream
	kindFailed        // response.failed
	kindText          // response.output_text.delta
	kindRefusal       // response.refusal.delta
	kindError         // an error event
	kindChat          // a chat completion, by its object
	kindResponse      // a Responses object
	kindForeign       // another object, whose members mean something else
)

func kindOfType(b []byte) kind {
	switch string(b) {
	case "message":
		return kindMessage
	case "message_stop", "message-end", "response.completed", "response.incomplete", "response.cancelled":
		return kindEnd
	case "response.failed":
		return kindFailed
	case "message_start", "message_delta", "content_block_start", "content_block_delta", "content_block_stop",
		"message-start", "content-start", "content-delta", "response.created", "response.in_progress":
		return kindEvent
	case "response.output_text.delta":
		return kindText
	case "response.refusal.delta":
		return kindRefusal
	case "error":
		return kindError
	}
	return kindNone
}

func kindOfObject(b []byte) kind {
	switch string(b) {
	case "chat.completion", "chat.completion.chunk", "text_completion", "text_completion.chunk":
		return kindChat
	case "response":
		return kindResponse
	case "error":
		return kindError
	case "":
		return kindNone
	}
	return kindForeign
}

// state is the status of a Responses object.
type state uint8

const (
	stateNone state = iota
	stateIncomplete
	stateFailed
	statePending // queued or in progress: nothing to judge yet
)
