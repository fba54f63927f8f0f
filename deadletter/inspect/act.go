package inspect

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// actions are what a form may ask for: how the letter's claim ends, and in
// which states it makes sense.
var actions = map[string]struct {
	verb deadletter.Verb
	from []deadletter.State
}{
	"discard": {deadletter.Discard, []deadletter.State{deadletter.Dead, deadletter.Quarantined}},
	"revive":  {deadletter.Revive, []deadletter.State{deadletter.Quarantined}},
}

// act changes one letter. It claims it first, so of two presses, or of a press
// and a replay, one wins and the other is told.
func (h *Handler) act(w http.ResponseWriter, req *http.Request) {
	if !h.mayAct(req) {
		h.message(w, http.StatusForbidden, "Not allowed", "These pages are for reading only.", "")
		return
	}
	req.Body = http.MaxBytesReader(w, req.Body, 64<<10)
	if err := req.ParseForm(); err != nil {
		h.message(w, http.StatusBadRequest, "Not understood", "The form is not complete, or too long.", "")
		return
	}
	id, do, reason := req.PostForm.Get("id"), req.PostForm.Get("do"), strings.TrimSpace(req.PostForm.Get("reason"))
	a, known := actions[do]
	switch {
	case !known || id == "":
		h.message(w, http.StatusBadRequest, "Not understood", "There is no such action.", "")
		return
	case a.verb == deadletter.Discard && reason == "":
		h.message(w, http.StatusBadRequest, "A reason is missing", "Say why the letter is discarded: the next one to look at it will ask.", id)
		return
	}
	ctx := req.Context()
	claims, err := h.claimer.Claim(ctx, deadletter.ClaimReq{
		By: "inspect", Lease: time.Minute, Filter: deadletter.Filter{IDs: []string{id}, States: a.from},
	})
	if err == nil && len(claims) == 0 {
		h.conflict(w, req, id)
		return
	}
	if err == nil {
		err = h.claimer.Resolve(ctx, claims[0].Token, deadletter.Outcome{Verb: a.verb, Reason: reason})
	}
	switch {
	case errors.Is(err, deadletter.ErrClaimLost):
		h.conflict(w, req, id)
		return
	case err != nil:
		h.cfg.Logger.Error("inspect: action failed", "action", do, "letter", id, "error", err)
		h.message(w, http.StatusInternalServerError, "Nothing was changed", redact.Err(err, 1<<10), id)
		return
	}
	h.cfg.Logger.Info("inspect: letter changed", "action", do, "letter", id, "reason", reason)
	// Relative, as all links: http.Redirect would not know where this is mounted.
	w.Header().Set("Location", "item?id="+url.QueryEscape(id))
	w.WriteHeader(http.StatusSeeOther)
}

// conflict tells what the letter is, instead of what was expected.
func (h *Handler) conflict(w http.ResponseWriter, req *http.Request, id string) {
	r, err := h.cfg.Store.Get(req.Context(), id)
	if err != nil {
		h.fail(w, req, err)
		return
	}
	text := "Nothing was changed: the letter is " + string(r.State) + "."
	switch r.State {
	case deadletter.Claimed:
		text = "Nothing was changed: the letter is being replayed just now."
	case deadletter.Acked, deadletter.Discarded:
		text = "Nothing was changed: the letter is " + string(r.State) + " already."
	}
	h.message(w, http.StatusConflict, "Not possible any more", text, id)
}
