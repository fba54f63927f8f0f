package batch_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// Run hears the signals of its process by itself: the first drains, the second
// cancels.
func TestRealSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted by another")
	}
	for _, hang := range []bool{false, true} {
		t.Run(map[bool]string{false: "the first drains", true: "the second cancels"}[hang], func(t *testing.T) {
			t.Parallel()
			_, all := killPlan()
			var n atomic.Int64
			inFlight, release := make(chan struct{}, 100), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inFlight <- struct{}{}
				if n.Add(1) > 1 { // the first goes alone
					select {
					case <-release:
					case <-r.Context().Done():
						return
					}
				}
				fmt.Fprint(w, "summary")
			}))
			t.Cleanup(server.Close)
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+dir+"|"+server.URL)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for range 9 {
				select {
				case <-inFlight:
				case <-t.Context().Done():
					t.Fatal("it does not call")
				}
			}
			interrupt := func() {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Error(err)
				}
			}
			interrupt()
			said := ""
			for out := bufio.NewScanner(stdout); out.Scan(); {
				said += out.Text() + "\n"
				switch heard := strings.Contains(out.Text(), "another signal cancels"); {
				case heard && hang:
					interrupt()
				case heard:
					close(release)
				}
			}
			_ = cmd.Wait()
			var rep batch.Report
			b, err := os.ReadFile(filepath.Join(dir, "report.json"))
			if err == nil {
				err = json.Unmarshal(b, &rep)
			}
			if err != nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != 130 || rep.State != "interrupted: interrupt" || rep.Complete {
				t.Errorf("exit %d, state %q\n%s", code, rep.State, said)
			}
			got, want := of(rep), counts{Exit: 130, Total: all, Done: 9, Pending: all - 9, Calls: 9}
			if hang { // what it had not seen yet is not counted
				want = counts{Exit: 130, Total: got.Total, Done: 1, Pending: got.Total - 1, Calls: 9}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("report (-got +want):\n%s", diff)
			}
			if files, err := filepath.Glob(filepath.Join(dir, "results", "*")); err != nil || len(files) != int(rep.Done) {
				t.Errorf("%d results, %v; %d done", len(files), err, rep.Done)
			}
		})
	}
}
