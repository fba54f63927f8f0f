package batch_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/durable"
)

func folder(t *testing.T) (*batch.Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	f, err := batch.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

func TestFolder(t *testing.T) {
	t.Parallel()
	f, dir := folder(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := map[string]string{}
	for id, data := range map[string]string{
		"plain": "a text", "doc.json": `{"summary": "x"}`, "Doc.json": `"a string"`, "a/b": "[1]", "": "no name", "..": "up",
		strings.Repeat("long", 100): "1", "nul": "device", "zeile\nzwei": "not\njson", "ünïcode": "é\u2028",
	} {
		want[id] = data
		r := batch.Result{Item: id, InputHash: "h", Version: "v", At: at, Data: []byte(data)}
		if err := f.Store(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, ok, err := f.Load(t.Context(), id)
		if diff := cmp.Diff(got, r); diff != "" || !ok || err != nil {
			t.Errorf("%q: %v, %v (-got +want):\n%s", id, ok, err, diff)
		}
		if filepath.Dir(f.Path(id)) != dir {
			t.Errorf("%q is kept in %s", id, f.Path(id))
		}
	}
	got := map[string]string{}
	for id, data := range f.All(func(err error) { t.Error(err) }) {
		got[id] = string(data)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("all (-got +want):\n%s", diff)
	}
	names := map[string]string{}
	for id := range want {
		name := strings.ToLower(filepath.Base(f.Path(id)))
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q are one file where case is folded", id, other)
		}
		names[name] = id
	}
	if f.Path("doc.json") != filepath.Join(dir, "doc.json.result.json") {
		t.Errorf("a plain name is %s", f.Path("doc.json"))
	}
	for id, plain := range map[string]bool{
		"nul": false, "nul.txt": false, "aux.tar.gz": false, "com1.json": false, "lpt0.x": false,
		"null.txt": true, "com10.json": true, "com.json": true, "my.nul": true, "console.log": true,
	} {
		if got := filepath.Base(f.Path(id)) == id+".result.json"; got != plain {
			t.Errorf("%q is kept in %s: a device on Windows is to have a hash, and no other", id, f.Path(id))
		}
	}
	// Nobody can name an item after the file of another.
	base := strings.TrimSuffix(filepath.Base(f.Path("a/b")), ".result.json")
	if f.Path(base) == f.Path("a/b") {
		t.Errorf("%q has the file of a/b", base)
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(f.Path("plain")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if err := f.Store(t.Context(), batch.Result{Item: "x", Data: []byte("\xff")}); err == nil {
		t.Error("half a character was stored as something else")
	}
	if _, ok, err := f.Load(t.Context(), "missing"); ok || err != nil {
		t.Errorf("missing: %v, %v", ok, err)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := batch.OpenFolder(name); err == nil {
		t.Error("a file passed for a folder")
	}
	e := newEnv(t)
	if err := os.MkdirAll(e.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.cfg.Dir, "results"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if rep, err := batch.Run(t.Context(), e.cfg, items(3), e.handle(nil)); rep.Exit != 1 || err == nil || len(e.calls) != 0 {
		t.Errorf("%v, %v: want nothing sent", rep, err)
	}
	if err := os.Remove(filepath.Join(e.cfg.Dir, "results")); err != nil {
		t.Fatal(err)
	}
	if rep, err := e.run(items(3), nil); rep.Exit != 0 {
		t.Errorf("afterwards: %v, %v: is the folder still locked?", rep, err)
	}
}

func TestCheckResult(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../internal/placeholder/testdata/texts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		text, err := strconv.Unquote(f[1])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		err = batch.CheckResult([]byte(text))
		if bad := f[0] == "-"; (err != nil) != bad || bad && !errors.Is(err, batch.ErrPlaceholder) {
			t.Errorf("%q: %v", text, err)
		}
	}
	fields := batch.Fields("summary", "score")
	for result, want := range map[string]string{
		`{"summary":"x","score":0}`:    "",
		`{"summary":" ","score":0}`:    "placeholder",
		`{"summary":"n/a","score":0}`:  "placeholder",
		`{"summary":[],"score":0}`:     "placeholder",
		`{"summary":"none","score":0}`: "",
		`{"summary":"x"}`:              `has no "score"`,
		`["x"]`:                        "no JSON object",
	} {
		err := fields(batch.Item{}, []byte(result))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", result, err, want)
		}
	}
}

// What killed writers have left goes, once nobody can be writing it any more.
func TestLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	results := filepath.Join(e.cfg.Dir, "results")
	if err := os.MkdirAll(results, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * time.Hour)
	for _, dir := range []string{e.cfg.Dir, results} {
		for _, name := range []string{"old", "young"} {
			path := filepath.Join(dir, durable.TempPrefix+name)
			if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "old" {
				if err := os.Chtimes(path, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if rep, err := e.run(items(1), nil); err != nil || rep.Done != 1 {
		t.Fatalf("%v, %v", rep, err)
	}
	for _, dir := range []string{e.cfg.Dir, results} {
		left, err := filepath.Glob(filepath.Join(dir, durable.TempPrefix+"*"))
		if err != nil || len(left) != 1 || filepath.Base(left[0]) != durable.TempPrefix+"young" {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}
