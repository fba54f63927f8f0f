//go:build unix

package inspect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
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
		const none = "no browser: install chromium, or name one in " + browserEnv
		if os.Getenv("CI") != "" {
			t.Fatal(none)
		}
		t.Skip(none)
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
