package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/deadletter"
)

// The test binary is the command, and a program that writes letters, when the
// environment says so: then exit codes, signals and locks are the real ones.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("DEADLETTER_WRITES_TO"); {
	case os.Getenv("DEADLETTER_IS_COMMAND") != "":
		main()
	case dir != "":
		writeUntilClosed(dir)
	default:
		os.Exit(m.Run())
	}
}

// writeUntilClosed puts letters into the journal until its input ends, and says
// how many at the end.
func writeUntilClosed(dir string) {
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		panic(err)
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	for n := 0; ; n++ {
		select {
		case <-over:
			fmt.Println(n)
			os.Exit(0)
		default:
		}
		err := j.Put(context.Background(), deadletter.Record{Queue: "other", ItemID: fmt.Sprint("w", n), Payload: []byte("{}"), Signature: "1:writer"})
		if err != nil {
			panic(err)
		}
		if n == 0 {
			fmt.Println("writing")
		}
	}
}

// result is what a run of the command printed.
type result struct {
	code      int
	out, errs string
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "DEADLETTER_IS_COMMAND=1", "GORACE=atexit_sleep_ms=0", "TEST_KEY=sk-test-marker-4711")
	return cmd
}

// cli runs the command to its end.
func cli(t *testing.T, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (r result) want(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.errs)
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errs, w) {
			t.Errorf("%q is missing in\n%s%s", w, r.out, r.errs)
		}
	}
}

// fill puts letters into a new journal and returns its directory.
func fill(t *testing.T, letters ...deadletter.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "letters")
	add(t, dir, letters...)
	return dir
}

func add(t *testing.T, dir string, letters ...deadletter.Record) {
	t.Helper()
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, r := range letters {
		if r.Queue == "" {
			r.Queue = "nightly"
		}
		if err := j.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// states counts the letters of a journal by state.
func states(t *testing.T, dir string) map[deadletter.State]int {
	t.Helper()
	j, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s, err := j.Stats(t.Context(), deadletter.Filter{States: everyState})
	if err != nil {
		t.Fatal(err)
	}
	return s.States
}

func TestUsage(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a", Payload: []byte("p")}, deadletter.Record{ItemID: "b", Payload: []byte("p")})
	empty := t.TempDir()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 1, "usage:"},
		{"help", 0, "  groups    the letters"},
		{"ls -help", 0, "-signature"},
		{"open " + dir, 1, "no such verb"},
		{"ls", 1, "directory"},
		{"ls " + empty, 1, "no journal"},
		{"ls " + empty + "/missing", 1, "missing"},
		{"ls " + dir + " -status many", 1, "numbers"},
		{"ls " + dir + " -state gone", 1, "quarantined"},
		{"ls " + dir + " -label x", 1, "key=value"},
		{"ls " + dir + " -older -3h", 1, "duration"},
		{"ls " + dir + " nothing", 1, "deadletter: no such letter"},
		{"groups " + dir + " a", 1, "takes no"},
		{"show " + dir, 1, "one letter"},
		{"show " + dir + " nothing", 1, "no such letter"},
		{"payload " + dir + " a b", 1, "one letter"},
		{"replay " + dir + " -limit 5", 1, "-budget"},
		{"replay " + dir + " -budget " + empty, 1, "-limit"},
		{"replay " + dir + " -yes -budget " + empty + "/none -limit 5", 1, "none"},
		{"replay " + dir + " -yes -breaker " + empty + "/none", 1, "none"},
		{"replay " + dir + " -breaker-name x", 1, "-breaker"},
		{"replay " + dir + " -auth-env DEADLETTER_NOT_SET", 1, "empty"},
		{"replay " + dir + " -queue other -yes", 1, "no letter matches"},
		{"replay " + dir + " -state acked", 1, "deadletter: letters in state acked cannot be replayed; those"},
		{"discard " + dir, 1, "-reason"},
		{"discard " + dir + " -reason old -queue other", 1, "no letter matches"},
		{"discard " + dir + " -reason old -state claimed", 1, "claimed"},
	} {
		cli(t, strings.Fields(tt.args)...).want(t, tt.code, tt.want)
	}
	if _, err := os.Stat(filepath.Join(empty, "missing")); err == nil {
		t.Error("a journal was made where there was none")
	}
	if got := states(t, dir); got[deadletter.Dead] != 2 {
		t.Errorf("%v", got)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	var letters []deadletter.Record
	for i := range 250 {
		letters = append(letters, deadletter.Record{ItemID: fmt.Sprint("doc-", i), Status: 400 + i%2})
	}
	dir := fill(t, letters...)
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input").want(t, 1, "to discard: 125 letters", "-yes")
	if got := states(t, dir); got[deadletter.Dead] != 250 {
		t.Fatalf("%v", got)
	}
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input", "-max", "5", "-yes").want(t, 4, "discarded 5 of 125")
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input", "-yes", "-json").want(t, 0, `"discarded":120`)
	cli(t, "discard", dir, "doc-1", "-reason", "by name", "-yes").want(t, 0, "discarded 1 of 1")
	if got := states(t, dir); got[deadletter.Discarded] != 126 {
		t.Errorf("%v", got)
	}
	cli(t, "show", dir, "doc-1").want(t, 0, "by name", "discarded")
}

// What hostile letters hold is shown, not obeyed.
func TestHostileText(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\u202eevil\u2066\x07\u200f\u0085\u2028\xff\r\n\tend"
	dir := fill(t, deadletter.Record{
		ItemID: evil, Queue: evil, Err: evil, Signature: evil, SignatureText: evil, Owner: evil, RunID: evil, Reason: evil, ErrType: evil,
		URL: "https://x/" + evil, Method: evil, Labels: map[string]string{evil: evil}, Header: http.Header{"Accept": {evil}}, UpstreamRequestID: evil,
		Payload: []byte(evil),
	})
	id := deadletter.ID(evil, evil)
	for _, args := range [][]string{
		{"ls", dir},
		{"ls", dir, "-json"},
		{"groups", dir},
		{"groups", dir, "-json"},
		{"show", dir, id},
		{"show", dir, id, "-json"},
		{"export", dir},
		{"payload", dir, id, "-json"},
		{"replay", dir},
		{"replay", dir, "-yes"},
		{"discard", dir, "-reason", evil},
		{"show", dir, evil + "x"},
	} {
		r := cli(t, args...)
		if i := strings.IndexFunc(r.out+r.errs, func(r rune) bool {
			return r != '\n' && r != '…' && r != utf8.RuneError && (r < ' ' || r > '~')
		}); i >= 0 {
			t.Errorf("%q prints %q", args[:1], (r.out + r.errs)[i:min(i+20, len(r.out+r.errs))])
		}
	}
	dir = fill(t, deadletter.Record{ItemID: "a", Err: evil})
	r := cli(t, "ls", dir, "-json")
	var rec deadletter.Record
	if err := json.Unmarshal([]byte(r.out), &rec); err != nil || !strings.Contains(rec.Err, "\u202eevil\u2066") {
		t.Errorf("the JSON says something else: %q, %v", rec.Err, err)
	}
}

// Looking, discarding and replaying work beside a program that writes.
func TestBesideAWriter(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := fill(t, u.request("a"), u.request("b"), u.request("c"))
	w := exec.CommandContext(t.Context(), os.Args[0])
	w.Env = append(os.Environ(), "DEADLETTER_WRITES_TO="+dir)
	var werr bytes.Buffer
	w.Stderr = &werr
	in, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	var first string
	if _, err := fmt.Fscan(out, &first); err != nil || first != "writing" {
		_ = in.Close()
		t.Fatalf("%q, %v, %s", first, errors.Join(err, w.Wait()), werr.String())
	}
	cli(t, "ls", dir, "-queue", "nightly").want(t, 0, "a", "b", "c")
	cli(t, "groups", dir).want(t, 0, "1:writer", "1:aaaaaaaaaaaa")
	cli(t, "verify", dir).want(t, 0, "no damage")
	cli(t, "replay", dir, "-yes", "-queue", "nightly", "a", "b").want(t, 0, "2 acked")
	cli(t, "discard", dir, "-queue", "nightly", "-reason", "not needed", "-yes").want(t, 0, "discarded 1 of 1")
	_ = in.Close()
	var wrote int
	_, err = fmt.Fscan(out, &wrote)
	if err := errors.Join(err, w.Wait()); err != nil { // its errors are whole only after Wait
		t.Fatalf("%v, %s", err, werr.String())
	}
	got := states(t, dir)
	if got[deadletter.Acked] != 2 || got[deadletter.Discarded] != 1 || got[deadletter.Dead] != wrote {
		t.Errorf("%v, want 2 acked, 1 discarded and %d dead", got, wrote)
	}
	cli(t, "verify", dir).want(t, 0, "no damage")
}

// The first signal gives the claims back.
func TestSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt on Windows")
	}
	for sig, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		called := make(chan struct{}, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // only then is the client's going noticed
			called <- struct{}{}
			<-req.Context().Done()
		}))
		r := (&upstream{Server: srv}).request("a")
		dir := fill(t, r)
		cmd := command(t, "replay", dir, "-yes", "-json")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-called
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		srv.Close()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), `"released":1`) {
			t.Errorf("%v: exit code %d, want %d: %s", sig, got, code, out.String())
		}
		if got := states(t, dir); got[deadletter.Dead] != 1 {
			t.Errorf("%v: %v", sig, got)
		}
	}
}
