package fakemodel

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// UserHeader is the request header that names who is asking. Without it the
// body's "user" field does.
const UserHeader = "X-Fakemodel-User"

// maxBody is the largest request body that is read.
const maxBody = 16 << 20

// A Model is a metered model API: an http.RoundTripper, an http.Handler, and
// the source of a Server. Make one with New. It is safe for concurrent use.
type Model struct {
	cfg Config

	mu       sync.Mutex
	epoch    time.Time // zero until the first call if SinceFirstCall
	limits   limits
	every    int            // calls that got as far as Faults.Every
	attempts map[uint64]int // by item
	count    counters
}

// New returns a Model, or all that is wrong with c.
func New(c Config) (*Model, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: c.filled(), attempts: make(map[uint64]int), count: newCounters()}
	if !c.SinceFirstCall {
		m.begin(m.cfg.Clock.Now())
	}
	return m, nil
}

// begin starts the model's time.
func (m *Model) begin(now time.Time) {
	m.epoch = now
	m.limits = newLimits(m.cfg.Limits, now)
}

// An arrival is what a form hands in: a request, its body read.
type arrival struct {
	method, path string
	header       http.Header
	body         []byte
	tooLong      bool
}

// A plan is how a call is going to be answered.
type plan struct {
	fate   Fate
	delay  time.Duration // before the headers
	status int
	header http.Header
	parts  [][]byte      // the body; a stream's events
	gap    time.Duration // before each part but the first
	stream bool
}

// wait spends the time until p's headers. It counts the status, and returns
// an error if ctx ended before.
func (m *Model) wait(ctx context.Context, p *plan) error {
	var err error
	if p.fate == FateHang {
		err = hang(ctx, nil)
	} else {
		err = pause(ctx, m.cfg.Clock, p.delay, nil)
	}
	status := p.status
	if err != nil {
		status = 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.status[status]++
	return err
}

// done ends the time of a call at the upstream.
func (m *Model) done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.inFlight--
}

// arrive decides about a call and charges it. Its caller must call wait and
// done.
func (m *Model) arrive(c *arrival) *plan {
	now := m.cfg.Clock.Now()
	r, bad := parse(c.body)
	user := c.header.Get(UserHeader)
	if user == "" && r != nil {
		user = r.User
	}

	p := &plan{header: http.Header{"Content-Type": {"application/json"}}}
	seq := m.enter(now, user)
	p.header.Set("X-Request-Id", requestID(m.cfg.Seed, seq))
	if m.refuseForm(p, c, r, bad) {
		m.settle(p, nil, user, 0, 0, now)
		return p
	}
	r.User = user

	text, reason := capped(m.cfg.Answer(r.Prompt), r.MaxTokens)
	cost := r.promptTokens + tokensOf(len(text))
	if m.refuse(p, r, cost, now) {
		m.settle(p, r, user, 0, 0, now)
		return p
	}
	p.fate = m.cfg.Faults.fateOf(m.cfg.Seed, r)
	billed := m.fill(p, r, completion{text: text, reason: reason}, now)
	m.settle(p, r, user, cost, billed, now)
	return p
}

// enter counts the arrival and returns its number.
func (m *Model) enter(now time.Time, user string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch.IsZero() {
		m.begin(now)
	}
	m.count.arrived(now, user)
	return m.count.calls
}

// fail makes p an error answer.
func (m *Model) fail(p *plan, fate Fate, status int, e wireError) {
	p.fate, p.status, p.delay = fate, status, m.cfg.Latency.reject()
	p.parts = [][]byte{e.body()}
}

// refuseForm answers what is no proper request of the key's holder.
func (m *Model) refuseForm(p *plan, c *arrival, r *request, bad *badParam) bool {
	complain := func(status int, param, message string) bool {
		e := wireError{Message: message, Type: "invalid_request_error"}
		if param != "" {
			e.Param = &param
		}
		m.fail(p, FateBadRequest, status, e)
		return true
	}
	switch {
	case !strings.HasSuffix(c.path, "/chat/completions"):
		return complain(http.StatusNotFound, "", fmt.Sprintf("Invalid URL (%s %s)", c.method, c.path))
	case c.method != http.MethodPost:
		p.header.Set("Allow", http.MethodPost)
		return complain(http.StatusMethodNotAllowed, "", "Only POST is accepted here.")
	case m.cfg.Key != "" && subtle.ConstantTimeCompare([]byte(c.header.Get("Authorization")), []byte("Bearer "+m.cfg.Key)) == 0:
		m.fail(p, FateKey, http.StatusUnauthorized, failure(http.StatusUnauthorized, "", ""))
		return true
	case c.tooLong:
		return complain(http.StatusRequestEntityTooLarge, "", "The request is too large.")
	case r == nil:
		return complain(http.StatusBadRequest, bad.param, bad.message)
	}
	return false
}

// refuse asks what depends on time and on other calls. When it lets r pass it
// has charged cost and numbered the attempt.
func (m *Model) refuse(p *plan, r *request, cost int64, now time.Time) bool {
	f := &m.cfg.Faults
	fail := func(fate Fate, status int, code string, wait time.Duration) bool {
		e := failure(status, code, p.header.Get("X-Request-Id"))
		m.fail(p, fate, status, e)
		if status == http.StatusTooManyRequests && code != "insufficient_quota" || status == http.StatusServiceUnavailable {
			m.cfg.Hints.apply(p.header, wait, now)
		}
		return true
	}
	if f.Always.Status != 0 {
		return fail(FateAlways, f.Always.Status, f.Always.Code, 0)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range f.Outages {
		if since := now.Sub(m.epoch); since >= o.From && since < o.To {
			return fail(FateOutage, o.Status, "", o.To-since)
		}
	}
	if f.Every > 0 {
		if m.every++; m.every%f.Every == 0 {
			return fail(FateNth, f.Nth.Status, f.Nth.Code, 0)
		}
	}
	no := m.limits.take(now, r.Model, cost)
	if m.cfg.Hints.RateLimit {
		m.limits.describe(p.header, now)
	}
	if no != nil {
		m.fail(p, no.fate, http.StatusTooManyRequests, wireError{Message: no.message, Type: no.kind, Code: &no.code})
		// Who waits for a quota or for what can never fit waits for nothing.
		if no.wait > 0 {
			m.cfg.Hints.apply(p.header, no.wait, now)
		}
		return true
	}
	m.attempts[r.item]++
	r.Attempt = m.attempts[r.item]
	return false
}

// fill makes p the answer that its fate asks for, c being the one of a good
// call, and returns the tokens to be billed.
func (m *Model) fill(p *plan, r *request, c completion, now time.Time) (billed int64) {
	id := p.header.Get("X-Request-Id")
	switch p.fate {
	case FateHang:
		return 0
	case FatePoison:
		param := "messages"
		m.fail(p, p.fate, http.StatusBadRequest, wireError{
			Message: "Invalid 'messages': the content cannot be processed.", Type: "invalid_request_error", Param: &param,
		})
		return 0
	case FateFlaky:
		m.fail(p, p.fate, http.StatusInternalServerError, failure(http.StatusInternalServerError, "", id))
		return 0
	case FateEmpty:
		c.text, c.reason = "", "stop"
	}
	c.id = fmt.Sprintf("chatcmpl-%s-%d", r.Item, r.Attempt)
	c.created, c.model = now.Unix(), r.Model
	completionTokens := tokensOf(len(c.text))
	c.usage = wireUsage{Prompt: r.promptTokens, Completion: completionTokens, Total: r.promptTokens + completionTokens}
	billed = c.usage.Total

	p.status, p.delay = http.StatusOK, m.cfg.Latency.answer(m.cfg.Seed, r)
	overloaded := failure(http.StatusServiceUnavailable, "", id)
	if !r.Stream {
		p.parts = [][]byte{c.body(m.cfg.NoUsage)}
		if p.fate == FateErrorIn200 {
			p.parts, billed = [][]byte{overloaded.body()}, 0
		}
		return billed
	}
	p.stream, p.gap = true, m.cfg.Latency.chunk()
	p.header.Set("Content-Type", "text/event-stream; charset=utf-8")
	p.header.Set("Cache-Control", "no-cache")
	p.parts = c.events(r.includeUsage && !m.cfg.NoUsage)
	switch p.fate {
	case FateCut, FateStall:
		p.parts = firstHalf(p.parts)
	case FateErrorIn200:
		p.parts, billed = append(firstHalf(p.parts), event(overloaded.body())), 0
	}
	return billed
}

// settle counts what became of a call. r is nil if it was no request.
func (m *Model) settle(p *plan, r *request, user string, cost, billed int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits.correct(now, cost, billed)
	m.count.decided(p.fate, r, user, billed)
}

// requestID is different for every call, as real ones are.
func requestID(seed uint64, seq int) string {
	return fmt.Sprintf("req_%016x", mix(mix(seed)^uint64(seq)))
}
