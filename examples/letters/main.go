// Letters shows the guards around a loop of one's own that may be killed and
// started again: what is done is not sent again, nor is what is a dead letter.
// These the program replays itself, so that their results land where all others
// are, and shows them as pages.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
	"github.com/nightfuse/nightfuse/retry"
)

// program is the loop with its guards.
type program struct {
	client  *http.Client
	letters *deadletter.Queue
	journal *deadletter.Journal
	spent   *budget.File
	url     string
	results string // a folder, with a file for each item that is done
}

// open builds the guards over the state in dir, which outlives the process.
func open(dir, url string) (*program, error) {
	// The breaker first: it makes its folder, which the spend's has to be in.
	states, err1 := breaker.File(filepath.Join(dir, "breaker"))
	spent, err2 := budget.OpenFile(filepath.Join(dir, "spent"))
	journal, err3 := deadletter.OpenJournal(filepath.Join(dir, "letters"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	day, err1 := budget.New(budget.Config{
		Name: "day", Limit: 2_000_000, Store: spent,
		Owners: []budget.Owner{{Name: "nightly", Limit: 1_500_000}, {Name: "people", UseHeadroom: true}},
	})
	up, err2 := breaker.New(breaker.Config{Name: "api.example.com", Store: states})
	again, err3 := retry.New(retry.Config{})
	letters, err4 := deadletter.New(deadletter.Config{Name: "summaries", Store: journal})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	var rt http.RoundTripper // nil is http.DefaultTransport
	rt = budget.NewTransport(rt, day)
	rt = breaker.NewTransport(rt, up)
	rt = retry.NewTransport(rt, again)
	rt = deadletter.NewTransport(rt, letters)
	return &program{&http.Client{Transport: rt}, letters, journal, spent, url, filepath.Join(dir, "results")}, nil
}

func (p *program) close() error { return errors.Join(p.journal.Close(), p.spent.Close()) }

// one makes the call of an item and stores its result.
func (p *program) one(ctx context.Context, id string) error {
	ctx = deadletter.WithItem(ctx, id)
	ctx, outcome := retry.WithOutcome(ctx)
	text, err := p.ask(ctx, id)
	if err = errors.Join(outcome.Err(), err); err != nil {
		return err
	}
	part := filepath.Join(p.results, id+".part")
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(p.results, id))
}

// ask stands for an SDK.
func (p *program) ask(ctx context.Context, id string) (string, error) {
	body := fmt.Sprintf(`{"max_tokens":20,"messages":[{"role":"user","content":%q}]}`, id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, resp.Body)
		return "", errors.Join(errors.New(resp.Status), err)
	}
	var a struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return "", err
	}
	return a.Choices[0].Message.Content, nil // an answer without choices is retry's to refuse
}

// run does the items that are neither done nor dead letters, and stops at the
// first refusal: what is left is for the next run.
func (p *program) run(ctx context.Context, items []string) (failed []string, err error) {
	for _, id := range items {
		if _, err := os.Stat(filepath.Join(p.results, id)); err == nil {
			continue
		}
		letter, err := p.letters.Get(ctx, id)
		switch {
		case errors.Is(err, deadletter.ErrNotFound):
		case err != nil:
			return failed, err
		case letter.State != deadletter.Acked && letter.State != deadletter.Discarded:
			continue // it has failed for good: see replay
		}
		err = p.one(ctx, id)
		var refused interface{ RefusedBy() string }
		var lost *deadletter.LostError
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.As(err, &refused) && refused.RefusedBy() != "":
			return failed, err
		case errors.As(err, &lost):
			return failed, err // it failed and is no letter: the disk is full, perhaps
		default:
			failed = append(failed, id)
		}
	}
	return failed, nil
}

// replay does the dead letters again, through the same guards.
func (p *program) replay(ctx context.Context) (deadletter.Report, error) {
	return deadletter.Replay(ctx, p.journal, func(ctx context.Context, r deadletter.Record) error {
		return p.one(ctx, r.ItemID)
	}, deadletter.Options{})
}

// pages serves the letters. It asks for no password: mount it behind one.
func (p *program) pages() (http.Handler, error) {
	h, err := inspect.New(inspect.Config{Store: p.journal, Queues: []*deadletter.Queue{p.letters}})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/letters/", http.StripPrefix("/letters", h))
	return mux, nil
}

func main() {
	// An upstream that refuses one item until somebody has seen to it.
	calls, mended := 0, false
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		calls++
		body, err := io.ReadAll(req.Body)
		if err != nil {
			log.Fatal(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), "doc-2") && !mended {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"code":"content_filter","message":"This prompt is refused."}}`)
			return
		}
		io.WriteString(w, `{"choices":[{"message":{"content":"Two refunds."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	}))
	defer upstream.Close()

	dir, err := os.MkdirTemp("", "letters-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "results"), 0o700); err != nil {
		log.Fatal(err)
	}
	ctx := budget.WithOwner(context.Background(), "nightly")
	for range 2 { // started, and started again
		p, err := open(dir, upstream.URL)
		if err != nil {
			log.Fatal(err)
		}
		failed, err := p.run(ctx, []string{"doc-1", "doc-2", "doc-3"})
		fmt.Println("run: failed", failed, "left because of", err, "after", calls, "calls")
		if err := p.close(); err != nil {
			log.Fatal(err)
		}
	}

	p, err := open(dir, upstream.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer p.close()
	pages, err := p.pages()
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/letters/list", nil))
	fmt.Println("page:", w.Code, "has doc-2:", strings.Contains(w.Body.String(), "doc-2"))

	mended = true
	rep, err := p.replay(ctx)
	if err != nil {
		log.Fatal(err)
	}
	done, err := os.ReadDir(filepath.Join(dir, "results"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("replay: acked", rep.Acked, "of", rep.Matched, "results", len(done), "after", calls, "calls")
}
