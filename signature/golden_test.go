package signature_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nightfuse/nightfuse/signature"
)

var update = flag.Bool("update", false, "add messages to testdata/golden.tsv")

const golden = "testdata/golden.tsv"

// entry is a message, its template and its signature.
type entry struct{ msg, template, id string }

// TestGolden holds templates and signatures to those on file. Stored
// signatures are compared with new ones for months: what is on file may change
// only with Version.
func TestGolden(t *testing.T) {
	t.Parallel()
	var got []entry
	for _, m := range append(seeds(t), goldenMore...) {
		got = append(got, entry{m, signature.Normalize(m), string(signature.OfString(m))})
	}
	version, want := readGolden(t)
	if version == signature.Version {
		for _, w := range want {
			g := entry{w.msg, signature.Normalize(w.msg), string(signature.OfString(w.msg))}
			if d := cmp.Diff(g, w, cmp.AllowUnexported(entry{})); d != "" {
				t.Errorf("the rules changed, so Version must (-got +want)\n%s", d)
			}
		}
	}
	if t.Failed() {
		return
	}
	if *update {
		writeGolden(t, got)
		return
	}
	if version != signature.Version || len(want) != len(got) {
		t.Errorf("%s is of version %q with %d messages, want %q with %d; run go test -update", golden, version, len(want), signature.Version, len(got))
	}
}

// goldenMore are messages for rules that the labelled files do not reach.
var goldenMore = []string{
	"", " ", "#", "503", "200 rows", "\x1b[31mfailed\x1b[0m step 5", "broken \xff\xfe utf-8", "a\u00a0b\u202fc ５５ items",
	"1 second left", "12 seconds left", "no quorum, node-1, node-22, node-3 are down", "user ana@example.org unknown",
	"open C:\\Users\\ana\\in.json: denied", "fe80::1%eth0 and 2001:db8::17 differ", "Fee::add() failed", "aa:bb:cc:dd:ee:ff is down",
	"password=hunter2 refused", "Sat Jun 18 02:23:10 2026: late", strings.Repeat("word 5 ", 900) + `{"type":"overloaded_error"}`,
}

func readGolden(t *testing.T) (version string, list []entry) {
	t.Helper()
	b, err := os.ReadFile(golden)
	if *update && os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), "# version "); ok {
			version = v
			continue
		}
		var e entry
		if _, err := fmt.Sscanf(sc.Text(), "%q\t%q\t%s", &e.msg, &e.template, &e.id); err != nil {
			t.Fatalf("%s: %v in %q", golden, err, sc.Text())
		}
		list = append(list, e)
	}
	return version, list
}

func writeGolden(t *testing.T, list []entry) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# version %s\n", signature.Version)
	for _, e := range list {
		fmt.Fprintf(&b, "%+q\t%+q\t%s\n", e.msg, e.template, e.id)
	}
	if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestElsewhere computes signatures in other processes, one of them of 32
// bits, and in another order.
func TestElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program twice")
	}
	t.Parallel()
	tool, err := exec.LookPath("go")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no go command: ", err)
		}
		t.Skip("no go command: ", err)
	}
	list := labelled(t, "testdata/go.tsv")
	want := make([]string, len(list))
	for i := len(list) - 1; i >= 0; i-- { // the other order
		want[i] = string(signature.OfString(list[i].Text))
	}
	arches := []string{runtime.GOARCH}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		arches = append(arches, "386")
	}
	for _, arch := range arches {
		bin := filepath.Join(t.TempDir(), "measure.exe")
		build := exec.CommandContext(t.Context(), tool, "build", "-o", bin, "./internal/measure")
		build.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, out)
		}
		out, err := exec.CommandContext(t.Context(), bin, "-ids", "testdata/go.tsv").Output()
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, want) {
			t.Errorf("%s: another process gives other signatures", arch)
		}
	}
}
