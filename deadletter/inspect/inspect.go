package inspect

import (
	"embed"
	"errors"
	"html/template"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Config says what a [Handler] shows. Store is required.
type Config struct {
	// Store holds the letters. A journal opened for reading only will do where
	// there are no actions; with AllowActions it must be a Claimer as well.
	Store deadletter.Reader

	// Title stands above each page. "" = "Dead letters".
	Title string

	// AllowActions reports whether a request may discard letters and let them
	// out of quarantine; it is asked for every page and every action, and must
	// be safe for concurrent use. nil = nobody may.
	AllowActions func(*http.Request) bool

	// Queues are those of this process whose counters /metrics tells.
	Queues []*deadletter.Queue

	// More adds metrics: each name is the key, an underscore and the yielded
	// name, such as "retry": func() ... { return again.Stats().All() }. The
	// functions must be safe for concurrent use.
	More map[string]func() iter.Seq2[string, float64]

	Clock  deadletter.Clock // what ages count from; nil = real time
	Logger *slog.Logger     // hears of actions and of errors of the store; nil = silent
}

// Handler serves the pages. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	claimer deadletter.Claimer // nil = nothing can be changed
	mux     *http.ServeMux
	replays replays
}

//go:embed page/*.html page/style.css
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "page/*.html"))

// New returns a handler. The error names every field that is missing or does
// not fit.
func New(c Config) (*Handler, error) {
	var errs []error
	if nils.In(c.Store) {
		errs = append(errs, errors.New("inspect: Store is missing"))
	}
	errs = append(errs, nils.Field("inspect: Clock", c.Clock))
	h := &Handler{cfg: c, mux: http.NewServeMux()}
	if c.AllowActions != nil {
		h.claimer, _ = c.Store.(deadletter.Claimer)
		if h.claimer == nil {
			errs = append(errs, errors.New("inspect: AllowActions needs a Store that is a Claimer"))
		}
	}
	for _, q := range c.Queues {
		if q == nil {
			errs = append(errs, errors.New("inspect: a nil queue in Queues"))
		}
	}
	for name, fn := range c.More {
		if !isMetric(name) || fn == nil {
			errs = append(errs, errors.New("inspect: More: "+name+" is no metric's name, or has no function"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.Title == "" {
		h.cfg.Title = "Dead letters"
	}
	if c.Logger == nil {
		h.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h.mux.HandleFunc("GET /{$}", h.groups)
	h.mux.HandleFunc("GET /list", h.list)
	h.mux.HandleFunc("GET /item", h.item)
	h.mux.HandleFunc("GET /payload", h.payload)
	h.mux.HandleFunc("GET /style.css", h.style)
	h.mux.HandleFunc("GET /metrics", h.metrics)
	h.mux.HandleFunc("GET /healthz", h.healthz)
	h.mux.Handle("POST /act", http.NewCrossOriginProtection().Handler(http.HandlerFunc(h.act)))
	return h, nil
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cache-Control":                "no-store",
		// Not no-referrer: then a form's Origin is "null", which is refused.
		"Referrer-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	h.mux.ServeHTTP(w, req)
}

func (h *Handler) now() time.Time {
	if h.cfg.Clock == nil {
		return time.Now()
	}
	return h.cfg.Clock.Now()
}

// mayAct reports whether req may change anything.
func (h *Handler) mayAct(req *http.Request) bool {
	return h.claimer != nil && h.cfg.AllowActions(req)
}

func (h *Handler) style(w http.ResponseWriter, req *http.Request) {
	http.ServeFileFS(w, req, files, "page/style.css")
}
