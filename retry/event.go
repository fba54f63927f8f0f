package retry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// Attempt is one attempt that has ended, as Config.OnAttempt gets it.
type Attempt struct {
	ID    string // the item, where it has a name
	N     int    // calls sent so far, with this one; a refused attempt is none
	Start time.Time
	Took  time.Duration // to the response's headers and, where it was held to be judged, the end of its body

	Request *http.Request // the caller's; nil in the function form. It must not be modified

	Err       error  // nil when it succeeded
	Status    int    // of the answer, or what an error stands for; 0 when none
	Code      string // the provider's code
	RefusedBy string // the guard that refused it, "" when it was sent

	Hint  time.Duration // the wait that the server asks for; 0 when none
	Again bool          // another attempt follows
	Cause error         // why none follows; nil when one does or it succeeded
}

// Wait is a wait that begins, as Config.OnWait gets it.
type Wait struct {
	ID    string
	Calls int           // calls sent so far
	Delay time.Duration // how long; for a refusal until it says to ask again, or all that is left of Hold
	Hint  time.Duration // the part of Delay that a server asked for
	By    string        // "backoff", "hint", or the guard whose refusal is waited for
	Err   error         // what it waits after
}

// tell calls OnAttempt and logs.
func (l *loop) tell(f failure, p pause, cause error, now time.Time) {
	a := Attempt{
		ID: l.id, N: l.calls, Start: l.began, Took: now.Sub(l.began), Request: l.req,
		Err: f.err, Status: f.status, Code: f.code, RefusedBy: call.RefusedBy(f.err),
		Hint: f.hint, Again: cause == nil, Cause: cause,
	}
	if l.r.cfg.Logger != nil && cause == nil {
		l.r.log(l.ctx, slog.LevelInfo, "retry: another attempt follows",
			slog.String("item", l.id), slog.Int("calls", l.calls), slog.Int("status", f.status),
			slog.String("code", f.code), slog.Duration("wait", p.wait), slog.Duration("hint", f.hint),
			slog.String("refused_by", a.RefusedBy), slog.String("err", redact.Err(f.err, textSize)))
	}
	if l.r.cfg.OnAttempt != nil {
		l.onAttempt(a)
	}
}

// onAttempt calls OnAttempt. What was paid for is not lost by its panic.
func (l *loop) onAttempt(a Attempt) {
	hook.Call(func() { l.r.cfg.OnAttempt(a) }, l.r.lost(l.ctx, "OnAttempt"))
}

// lost returns what counts and logs a hook's panic.
func (r *Retrier) lost(ctx context.Context, name string) func(text string) {
	return func(text string) {
		r.stats.hookPanics.Add(1)
		if r.cfg.Logger != nil {
			r.log(ctx, slog.LevelError, "retry: "+name+" panicked", slog.String("panic", text))
		}
	}
}

// gaveUp logs the end without a result. The item has failed only if no guard has
// refused it.
func (l *loop) gaveUp(e *Error) {
	if l.r.cfg.Logger == nil {
		return
	}
	l.r.log(l.ctx, slog.LevelWarn, "retry: gave up",
		slog.String("item", l.id), slog.Int("calls", e.Calls), slog.Duration("elapsed", e.Elapsed),
		slog.Int("status", e.Status), slog.String("code", e.Code),
		slog.String("refused_by", e.RefusedBy()), slog.String("err", e.Error()))
}

func (r *Retrier) log(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	r.cfg.Logger.LogAttrs(context.WithoutCancel(ctx), level, msg, append([]slog.Attr{slog.String("retrier", r.cfg.Name)}, attrs...)...)
}

func (l *loop) onWait(p pause) {
	w := Wait{ID: l.id, Calls: l.calls, Delay: p.wait, Err: l.last.err, By: "backoff"}
	switch {
	case p.held:
		w.Err, w.By = l.last.refusal, call.RefusedBy(l.last.refusal)
	case p.why == forHint:
		w.By, w.Hint = "hint", l.last.hint
	}
	hook.Call(func() { l.r.cfg.OnWait(w) }, l.r.lost(l.ctx, "OnWait"))
}
