package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// functions are what the templates may call. What letters hold goes through
// text, line or short.
var functions = template.FuncMap{
	"text":   show.Lines,
	"line":   show.Printable,
	"short":  show.Short,
	"when":   show.When,
	"size":   show.Size,
	"status": show.Status,
	"dash":   show.OrDash,
	"machine": func(t time.Time) string {
		return t.UTC().Format(time.RFC3339)
	},
}

// states are all, in the order of a letter's life.
var states = []deadletter.State{
	deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked, deadletter.Discarded,
}

// page is what every template gets.
type page struct {
	Site, Title string
	Here        string // which entry of the navigation this is
	Now         time.Time
	Data        any
}

// Ago is the age of a time, for people.
func (p page) Ago(t time.Time) string {
	d := p.Now.Sub(t)
	switch {
	case d < 0:
		return "in the future"
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

// render writes a page, or nothing of it.
func (h *Handler) render(w http.ResponseWriter, code int, name, title, here string, data any) {
	var b bytes.Buffer
	err := pages.ExecuteTemplate(&b, name, page{Site: h.cfg.Title, Title: title, Here: here, Now: h.now(), Data: data})
	if err != nil {
		h.cfg.Logger.Error("inspect: page failed", "page", name, "error", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

// message is a page that says something.
func (h *Handler) message(w http.ResponseWriter, code int, title, text, id string) {
	h.render(w, code, "message.html", title, "", struct{ Text, ID string }{text, id})
}

// fail tells of an error of the store.
func (h *Handler) fail(w http.ResponseWriter, req *http.Request, err error) {
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		h.message(w, http.StatusNotFound, "No such letter", "It was never there, or it has been purged.", "")
		return
	case req.Context().Err() != nil:
		return // nobody reads it
	}
	h.cfg.Logger.Error("inspect: store failed", "path", req.URL.Path, "error", err)
	h.message(w, http.StatusInternalServerError, "The store cannot be read", redact.Err(err, 1<<10), "")
}

// overview is the first page.
type overview struct {
	deadletter.Summary
	Counts []stateCount
	Open   int // unresolved
}

type stateCount struct {
	State deadletter.State
	N     int
}

func (h *Handler) groups(w http.ResponseWriter, req *http.Request) {
	s, err := h.cfg.Store.Stats(req.Context(), deadletter.Filter{})
	if err != nil {
		h.fail(w, req, err)
		return
	}
	o := overview{Summary: s, Open: s.Letters(deadletter.Dead, deadletter.Claimed, deadletter.Quarantined)}
	for _, st := range states {
		if n := s.States[st]; n > 0 {
			o.Counts = append(o.Counts, stateCount{st, n})
		}
	}
	h.render(w, http.StatusOK, "groups.html", "Groups", "groups", o)
}

const pageSize = 50

// listing is one page of the list.
type listing struct {
	Letters []deadletter.Record
	Damaged []string
	First   string // link to the first page, when this is another
	Next    string // link to the next
	Query   query
	States  []deadletter.State
	Queues  []string
}

// query is what was asked for, as it stands in the form.
type query struct{ Queue, State, Signature, Status, Owner string }

// filter reads a list's query.
func (q query) filter() (deadletter.Filter, error) {
	f := deadletter.Filter{Queue: q.Queue, Signature: q.Signature, Owner: q.Owner}
	if q.State == "all" {
		f.States = states
	} else if q.State != "" {
		if !slices.Contains(states, deadletter.State(q.State)) {
			return f, errors.New("there is no such state")
		}
		f.States = []deadletter.State{deadletter.State(q.State)}
	}
	if q.Status != "" {
		n, err := strconv.Atoi(q.Status)
		if err != nil || n < 0 || n > 999 {
			return f, errors.New("a status is a number such as 429; 0 is no answer")
		}
		f.Statuses = []int{n}
	}
	return f, nil
}

// link is the list's address for q.
func (q query) link(after deadletter.Cursor) string {
	v := url.Values{}
	for name, value := range map[string]string{"queue": q.Queue, "state": q.State, "signature": q.Signature, "status": q.Status, "owner": q.Owner} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if after.ID != "" {
		v.Set("after", strconv.FormatInt(after.FailedAt.UnixMicro(), 10)+"."+after.ID)
	}
	if len(v) == 0 {
		return "list"
	}
	return "list?" + v.Encode()
}

func (h *Handler) list(w http.ResponseWriter, req *http.Request) {
	v := req.URL.Query()
	// As the stores keep texts: so that a link of ours always matches.
	asked := func(name string) string { return strings.ToValidUTF8(v.Get(name), "\ufffd") }
	typed := func(name string) string { return strings.TrimSpace(asked(name)) }
	q := query{Queue: asked("queue"), State: asked("state"), Signature: typed("signature"), Status: typed("status"), Owner: typed("owner")}
	f, err := q.filter()
	if err == nil && v.Get("after") != "" {
		micro, id, _ := strings.Cut(v.Get("after"), ".")
		var n int64
		if n, err = strconv.ParseInt(micro, 10, 64); err != nil {
			err = errors.New("the address of this page is not complete")
		}
		f.After = deadletter.Cursor{FailedAt: time.UnixMicro(n).UTC(), ID: id}
	}
	if err != nil {
		h.message(w, http.StatusBadRequest, "Cannot look for that", err.Error(), "")
		return
	}
	l := listing{Query: q, States: states}
	if f.After.ID != "" {
		l.First = q.link(deadletter.Cursor{})
	}
	s, err := h.cfg.Store.Stats(req.Context(), deadletter.Filter{})
	if err != nil {
		h.fail(w, req, err)
		return
	}
	l.Queues = slices.Sorted(maps.Keys(s.Queues))
	f.Limit = pageSize + 1 // one more tells whether there is a next page
	if err := h.fill(req.Context(), &l, f); err != nil {
		h.fail(w, req, err)
		return
	}
	h.render(w, http.StatusOK, "list.html", "Letters", "list", l)
}

func (h *Handler) fill(ctx context.Context, l *listing, f deadletter.Filter) error {
	for r, err := range h.cfg.Store.List(ctx, f) {
		switch {
		case errors.Is(err, deadletter.ErrCorrupt):
			l.Damaged = append(l.Damaged, redact.Err(err, 300))
		case err != nil:
			return err
		case len(l.Letters)+len(l.Damaged) >= pageSize && len(l.Letters) > 0:
			l.Next = l.Query.link(l.Letters[len(l.Letters)-1].Cursor())
		default:
			l.Letters = append(l.Letters, r)
		}
	}
	return nil
}

// payloadHead is how much of a payload an item's page shows.
const payloadHead = 4 << 10

// itemPage is one letter.
type itemPage struct {
	deadletter.Record
	Head   string // of the payload
	Whole  bool   // it is the whole payload
	MayAct bool
	Labels []pair
	Heads  []pair
}

type pair struct{ Name, Value string }

func (h *Handler) item(w http.ResponseWriter, req *http.Request) {
	r, err := h.cfg.Store.Get(req.Context(), req.URL.Query().Get("id"))
	if err != nil {
		h.fail(w, req, err)
		return
	}
	p := itemPage{Record: r, Head: string(r.Payload), Whole: len(r.Payload) <= payloadHead}
	if !p.Whole {
		p.Head = strings.ToValidUTF8(p.Head[:payloadHead], "")
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		p.Labels = append(p.Labels, pair{k, r.Labels[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(r.Header)) {
		p.Heads = append(p.Heads, pair{k, strings.Join(r.Header[k], ", ")})
	}
	p.MayAct = (r.State == deadletter.Dead || r.State == deadletter.Quarantined) && h.mayAct(req)
	title := "Letter without a name"
	if r.ItemID != "" {
		title = show.Short(r.ItemID, 80)
	}
	h.render(w, http.StatusOK, "item.html", title, "item", p)
}

func (h *Handler) payload(w http.ResponseWriter, req *http.Request) {
	r, err := h.cfg.Store.Get(req.Context(), req.URL.Query().Get("id"))
	if err != nil {
		h.fail(w, req, err)
		return
	}
	name := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return -1 // of an id that a caller chose
	}, r.ID)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="payload-`+name+`.bin"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(r.Payload)))
	_, _ = w.Write(r.Payload)
}
