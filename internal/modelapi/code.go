package modelapi

import (
	"strconv"
	"strings"
)

// codes are the providers' own words, in lower case, where they say more than
// the status does.
var codes = map[string]Class{
	"insufficient_quota": Quota, "billing_hard_limit_reached": Quota, "billing_not_active": Quota, "billing_error": Quota,
	"billing_disabled": Quota, "insufficient_balance": Quota, "insufficient_credits": Quota, "insufficient_user_quota": Quota,
	"exceeded_current_quota_error": Quota, "payment_required": Quota, "arrearage": Quota, "credit_balance_too_low": Quota,
	"servicequotaexceededexception": Quota, "account_deactivated": Auth,

	"rate_limit_exceeded": RateLimited, "rate_limit_error": RateLimited, "rate_limit_reached": RateLimited,
	"ratelimitexceeded": RateLimited, "userratelimitexceeded": RateLimited, "too_many_requests": RateLimited,
	"throttlingexception": RateLimited, "toomanyrequestsexception": RateLimited, "resource_exhausted": RateLimited,

	"overloaded_error": Overloaded, "overloaded": Overloaded, "engine_overloaded_error": Overloaded, "server_overloaded": Overloaded,
	"slow_down": Overloaded, "unavailable": Overloaded, "service_unavailable": Overloaded, "serviceunavailableexception": Overloaded,
	"modelnotreadyexception": Overloaded,

	"timeout": Timeout, "timeout_error": Timeout, "request_timeout": Timeout, "deadline_exceeded": Timeout,
	"modeltimeoutexception": Timeout,

	"server_error": ServerError, "api_error": ServerError, "internal_error": ServerError, "internal_server_error": ServerError,
	"internal": ServerError, "internalserverexception": ServerError, "modelstreamerrorexception": ServerError,

	"authentication_error": Auth, "permission_error": Auth, "invalid_api_key": Auth, "unauthenticated": Auth,
	"permission_denied": Auth, "api_key_invalid": Auth, "accessdeniedexception": Auth, "unrecognizedclientexception": Auth,
	"expiredtokenexception": Auth,

	"invalid_request_error": BadRequest, "not_found_error": BadRequest, "request_too_large": BadRequest,
	"context_length_exceeded": BadRequest, "model_not_found": BadRequest, "invalid_argument": BadRequest,
	"failed_precondition": BadRequest, "not_found": BadRequest, "validationexception": BadRequest,
	"resourcenotfoundexception": BadRequest, "invalid_prompt": BadRequest, "content_policy_violation": BadRequest,
}

// classOfCode returns the class of the first of names that has one. Quota wins
// wherever it stands: it decides before any other word does.
func classOfCode(names ...string) Class {
	class := Unjudged
	for _, name := range names {
		// AWS writes a type as name:URL or namespace#name.
		name, _, _ = strings.Cut(name, ":")
		name = strings.ToLower(name[strings.LastIndexByte(name, '#')+1:])
		switch c := codes[name]; {
		case c == Quota:
			return Quota
		case class == Unjudged:
			class = c
		}
	}
	return class
}

// classOfError returns the class of an error by its status and by what the body
// says.
func classOfError(status int, e *failure, amzn string) Class {
	said := classOfCode(e.code, e.typ, e.reason, e.status, e.outer, amzn)
	if said == Quota {
		return Quota
	}
	base := ClassOf(status)
	switch status {
	case 429:
		switch {
		case e.perDay:
			return QuotaPerDay
		case e.zeroQuota || has(e.text, "limit: 0,") || strings.HasSuffix(e.text, "limit: 0"):
			return Quota // the model is not available on this plan
		case tooLarge(e.text):
			return BadRequest // it can never fit, however long one waits
		case has(e.text, "/ month") || has(e.text, "per month") || has(e.text, "tokens per day, please"):
			return Quota
		}
	case 400, 403:
		if has(e.text, "credit balance is too low") || status == 403 && has(e.text, "quota") {
			return Quota
		}
	}
	switch said {
	case RateLimited, Overloaded:
		switch {
		case status == 400, status == 403, base == ServerError, base == RateLimited, base == Overloaded:
			return said
		}
	case Timeout:
		if base == ServerError {
			return said
		}
	case Auth:
		if status == 400 {
			return said
		}
	}
	return base
}

func has(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

// tooLarge reports whether the message says that this one request is above the
// whole limit: "Limit 10000, Requested 15000".
func tooLarge(text string) bool {
	limit, ok := after(text, "Limit ")
	requested, ok2 := after(text, "Requested ")
	return ok && ok2 && requested > limit
}

// after returns the number behind mark, which may have commas for thousands.
func after(text, mark string) (int64, bool) {
	_, rest, ok := strings.Cut(text, mark)
	if !ok {
		return 0, false
	}
	var b []byte
	for i := range len(rest) {
		c := rest[i]
		if c == ',' && i+1 < len(rest) && '0' <= rest[i+1] && rest[i+1] <= '9' {
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		b = append(b, c)
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// inner returns the HTTP status that an error under 200 stands for.
func (e *failure) inner() int {
	if e.number >= 400 {
		return e.number
	}
	for _, name := range [...]string{e.code, e.typ, e.status} {
		if strings.EqualFold(name, "overloaded_error") {
			return 529
		}
	}
	switch classOfCode(e.code, e.typ, e.reason, e.status, e.outer) {
	case RateLimited:
		return 429
	case Quota:
		return 402
	case Overloaded:
		return 503
	case Auth:
		return 401
	case BadRequest:
		return 400
	case Timeout:
		return 504
	}
	if e.perDay {
		return 429
	}
	return 500
}

// name returns the word that tells the error best: a code that is no mere
// number, the type, the number.
func (e *failure) name(amzn string) string {
	amzn, _, _ = strings.Cut(amzn, ":")
	for _, s := range [...]string{e.code, e.typ, e.status, amzn, e.outer} {
		if s != "" && !digits(s) {
			return cut(s, wordLimit)
		}
	}
	return cut(e.code, wordLimit)
}
