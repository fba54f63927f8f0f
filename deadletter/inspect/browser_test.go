//go:build unix

package inspect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

const (
	// browserEnv names the browser, which then must work. Unset: one of the
	// usual names, or the tests are skipped.
	browserEnv = "NIGHTFUSE_BROWSER"
	// shotsEnv is a directory for screenshots.
	shotsEnv = "NIGHTFUSE_SCREENSHOTS"
)

// browser is a Chromium without a window that is spoken to through a pipe.
type browser struct {
	t       *testing.T
	in      io.Writer
	session string
	mu      sync.Mutex
	n       int
	answers map[int]chan answer
	events  chan answer
	logged  []string // what a console would show
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	name := os.Getenv(browserEnv)
	for _, usual := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(usual); err == nil && name == "" {
			name = usual
		}
	}
	if name == "" {
		t.Skip("no browser: install chromium, or name one in " + browserEnv)
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	// Its processes end one after the other, and write until they do.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(
		ctx, name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir="+dir, "--remote-debugging-pipe",
	)
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromRead, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{toRead, fromWrite}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_ = toRead.Close()
	_ = fromWrite.Close()
	b := &browser{t: t, in: toWrite, answers: map[int]chan answer{}, events: make(chan answer, 1000)}
	go b.read(fromRead)
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil, nil)
		_ = toWrite.Close()
		_ = cmd.Wait()
		_ = fromRead.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Log", "Runtime"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// read hands the browser's messages to those who wait.
func (b *browser) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			close(b.events)
			return
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &a) != nil {
			continue
		}
		b.mu.Lock()
		switch a.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Page.javascriptDialogOpening":
			b.logged = append(b.logged, string(a.Params))
		case "Page.loadEventFired":
			b.events <- a
		}
		wait := b.answers[a.ID]
		delete(b.answers, a.ID)
		b.mu.Unlock()
		if wait != nil {
			wait <- a
		}
	}
}

// call asks the browser for something.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.mu.Lock()
	b.n++
	wait := make(chan answer, 1)
	b.answers[b.n] = wait
	msg := map[string]any{"id": b.n, "method": method, "params": params}
	b.mu.Unlock()
	if params == nil {
		msg["params"] = map[string]any{}
	}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	text, err := json.Marshal(msg)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case a := <-wait:
		if a.Error != nil {
			b.t.Fatalf("%s: %s", method, a.Error)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: the browser does not answer", method)
	}
}

// loaded waits until a page is there.
func (b *browser) loaded() {
	b.t.Helper()
	select {
	case _, ok := <-b.events:
		if !ok {
			b.t.Fatal("the browser has ended")
		}
	case <-time.After(time.Minute):
		b.t.Fatal("no page was loaded")
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.loaded()
}

// eval returns what an expression is in the page, as JSON's types.
func (b *browser) eval(expr string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expr, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expr, r.ExceptionDetails)
	}
	return r.Result.Value
}

// press presses keys, as their names or as text to type.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		key := map[string]any{"key": k, "code": k}
		switch k {
		case "Tab":
			key["windowsVirtualKeyCode"] = 9
		case "Enter":
			key["windowsVirtualKeyCode"], key["text"] = 13, "\r"
		default:
			b.call("Input.insertText", map[string]any{"text": k}, nil)
			continue
		}
		for _, kind := range []string{"keyDown", "keyUp"} {
			key["type"] = kind
			b.call("Input.dispatchKeyEvent", key, nil)
		}
	}
}

// tabTo presses Tab until the focus is on what the expression finds.
func (b *browser) tabTo(what string) {
	b.t.Helper()
	for range 60 {
		b.press("Tab")
		if b.eval("getComputedStyle(document.activeElement).outlineStyle") == "none" {
			b.t.Errorf("the focus on %v cannot be seen", b.eval("document.activeElement.outerHTML"))
		}
		if b.eval("document.activeElement === "+what) == true {
			return
		}
	}
	b.t.Fatalf("%s cannot be reached by keyboard", what)
}

// view sets the width of the window, and light or dark.
func (b *browser) view(width int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shot keeps a picture of the page for people.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv(shotsEnv)
	if dir == "" {
		return
	}
	var r struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": false}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// clean fails when the browser had to complain: of the policy, a file that is
// missing, a script that ran.
func (b *browser) clean(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.logged {
		b.t.Errorf("%s: the browser says %s", where, l)
	}
	b.logged = nil
}

// night is a store as it may be in the morning.
func night(t *testing.T) (*site, map[string]string) {
	t.Helper()
	s := newSite(t, inspect.Config{Title: "Summaries, night of 3 November", AllowActions: func(*http.Request) bool { return true }})
	at := s.clk.Now()
	ids := map[string]string{}
	for i := range 60 {
		r := deadletter.Record{
			ItemID: fmt.Sprintf("inbox/2026-11-02/customer-%04d.json", i*37), Owner: "nightly", RunID: "2026-11-03", Status: 503, Attempts: 4,
			Signature: "1:744b33b071ca", SignatureText: "503 service unavailable: overloaded_error: the server is overloaded, request #",
			Err:          "retry: 4 calls in 21.4s: attempts used up: 503 Service Unavailable: overloaded_error: The server is overloaded, request 4711.",
			LastFailedAt: at.Add(-time.Duration(i*7) * time.Minute), EstTokens: 1830, Method: "POST", URL: "https://api.example.com/v1/chat/completions",
			Payload: []byte(`{"model":"fake-1","messages":[{"role":"user","content":"Summarise the conversation below."}]}`),
			Header:  http.Header{"Content-Type": {"application/json"}}, Labels: map[string]string{"file": "a.json"}, UpstreamRequestID: "req_011CQ",
		}
		switch {
		case i%9 == 4:
			r.Status, r.Signature, r.SignatureText = 400, "1:27a5e0c1b0d9", "400 bad request: context_length_exceeded: this model's maximum context length is # tokens"
			r.Err = "retry: 1 call in 0.3s: not worth another attempt: 400 Bad Request: context_length_exceeded: This model's maximum context length is 8192 tokens."
		case i%13 == 6:
			r.Status, r.Signature, r.SignatureText, r.Err = 0, "1:f00dfacecafe", "read tcp #: connection reset by peer", "read tcp 10.0.0.7:51312->192.0.2.1:443: read: connection reset by peer"
		}
		ids[fmt.Sprint(i)] = s.put(r)
	}
	claims, err := s.store.Claim(t.Context(), deadletter.ClaimReq{N: 2, By: "host-7:4711", Lease: 10 * time.Minute})
	if err != nil || len(claims) != 2 {
		t.Fatal(claims, err)
	}
	if err := s.store.Resolve(t.Context(), claims[0].Token, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "replayed 3 times in vain"}); err != nil {
		t.Fatal(err)
	}
	ids["quarantined"] = claims[0].Record.ID
	evil := hostile()
	evil.LastFailedAt = at
	s.put(evil)
	for r, err := range s.store.List(t.Context(), deadletter.Filter{Statuses: []int{500}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids["hostile"] = r.ID
	}
	return s, ids
}

// The pages in a real browser: nothing runs, nothing is wider than the screen,
// everything is reached by keyboard, and there is a dark side.
func TestInABrowser(t *testing.T) {
	b := startBrowser(t)
	s, ids := night(t)
	srv := httptest.NewServer(s.mux)
	t.Cleanup(srv.Close)
	base := srv.URL + "/letters/"
	pages := map[string]string{
		"groups": "", "list": "list", "item": "item?id=" + ids["3"], "quarantine": "list?state=quarantined",
		"quarantined": "item?id=" + ids["quarantined"], "hostile": "item?id=" + ids["hostile"],
		"hostile-list": "list?status=500", "message": "item?id=none", "empty": "list?status=599",
	}
	for _, v := range []struct {
		width  int
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {320, "light"}} {
		b.view(v.width, v.scheme)
		for name, path := range pages {
			b.open(base + path)
			where := fmt.Sprintf("%s, %d wide, %s", name, v.width, v.scheme)
			b.shot(fmt.Sprintf("%s-%d-%s", name, v.width, v.scheme))
			if w := b.eval("document.documentElement.scrollWidth").(float64); int(w) > v.width {
				t.Errorf("%s: is %v wide", where, w)
			}
			if n := b.eval("document.querySelectorAll('script, img, [onerror], [style]').length"); n != 0.0 {
				t.Errorf("%s: holds %v elements that came from a letter", where, n)
			}
			if n := b.eval("document.styleSheets.length"); n != 1.0 {
				t.Errorf("%s: has %v style sheets", where, n)
			}
			back := b.eval("getComputedStyle(document.body).backgroundColor").(string)
			if want := map[string]string{"light": "rgb(251, 251, 249)", "dark": "rgb(20, 23, 26)"}[v.scheme]; back != want {
				t.Errorf("%s: the background is %s", where, back)
			}
			if name == "message" {
				b.mu.Lock()
				b.logged = nil // of the status 404
				b.mu.Unlock()
			}
			b.clean(where)
		}
	}
}

// A person without a mouse, with scripts switched off, finds a letter and
// discards it; pressing again says that it is done.
func TestByKeyboard(t *testing.T) {
	b := startBrowser(t)
	s, ids := night(t)
	srv := httptest.NewServer(s.mux)
	t.Cleanup(srv.Close)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.view(1280, "light")
	b.open(srv.URL + "/letters/")
	b.press("Tab")
	if b.eval("document.activeElement.className") != "skip" || b.eval("document.activeElement.getBoundingClientRect().left >= 0") != true {
		t.Error("the first Tab does not show the way past the navigation")
	}
	b.tabTo("document.querySelector('main table a')")
	b.press("Enter")
	b.loaded()
	if got := fmt.Sprint(b.eval("location.pathname + location.search")); !strings.HasPrefix(got, "/letters/list?signature=") {
		t.Fatalf("at %s", got)
	}
	b.tabTo("document.querySelector('main tbody tr:nth-child(4) a')") // not one that others hold
	b.press("Enter")
	b.loaded()
	id := strings.TrimPrefix(fmt.Sprint(b.eval("location.search")), "?id=")
	reason := "document.querySelector('input[name=reason]')"
	b.tabTo(reason)
	b.press("its customer has left", "Tab")
	b.shot("typed")
	b.press("Enter")
	b.loaded()
	if st := s.state(id); st != deadletter.Discarded {
		t.Errorf("the letter is %s", st)
	}
	if got := fmt.Sprint(b.eval("document.body.innerText")); !strings.Contains(got, "its customer has left") || strings.Contains(got, "Actions") {
		t.Errorf("the page says %s", got)
	}
	b.clean("an action")

	// Two windows with the same letter.
	path := srv.URL + "/letters/item?id=" + ids["quarantined"]
	b.open(path)
	w := s.post(map[string][]string{"id": {ids["quarantined"]}, "do": {"discard"}, "reason": {"the other window"}})
	if w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	b.tabTo("document.querySelector('input[value=revive]').form.querySelector('button')")
	b.press("Enter")
	b.loaded()
	if got := fmt.Sprint(b.eval("document.body.innerText")); !strings.Contains(got, "discarded already") {
		t.Errorf("the page says %s", got)
	}
	b.shot("conflict")
}
