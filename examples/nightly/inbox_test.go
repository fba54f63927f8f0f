package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
)

func TestInboxFileThatIsNoItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		inbox := filepath.Join(dir, "inbox")
		write(t, filepath.Join(inbox, "a.json"), `{"symbol":"a","text":"What a does."}`)
		write(t, filepath.Join(inbox, "b.json"), `{"symbol":`)
		write(t, filepath.Join(inbox, "c.json"), `{"symbol":"c","text":"  "}`)
		write(t, filepath.Join(inbox, "notes.txt"), `not an item`)

		o := runNight(t, up, dir)
		checkConserved(t, dir, o)
		if diff := cmp.Diff(o.report.DeadItems, []string{"b.json", "c.json"}); diff != "" || o.report.Done != 1 || o.exit != batch.ExitDead {
			t.Errorf("exit %d, done %d, dead items (-got +want):\n%s", o.exit, o.report.Done, diff)
		}
		if n := up.Stats().Calls; n != 1 {
			t.Errorf("%d calls, want 1: what is no item is not sent", n)
		}

		// Mended, it is done; the others are not touched.
		write(t, filepath.Join(inbox, "b.json"), `{"symbol":"b","text":"What b does."}`)
		o = runNight(t, up, dir)
		checkConserved(t, dir, o)
		if diff := cmp.Diff(o.report.DeadItems, []string{"c.json"}); diff != "" || up.Stats().Calls != 2 {
			t.Errorf("%d calls, dead items (-got +want):\n%s", up.Stats().Calls, diff)
		}
		// Asked to, the next run tries the dead ones again, in vain here.
		if again := runNight(t, up, dir, "-again"); again.report.Dead != 1 || again.report.Pending != 0 || up.Stats().Calls != 2 {
			t.Errorf("-again: dead %d, pending %d, %d calls", again.report.Dead, again.report.Pending, up.Stats().Calls)
		}
		if len(o.report.Signatures) != 1 {
			t.Errorf("signatures %v, want only that of c.json: b.json's letter is resolved", o.report.Signatures)
		}
	})
}

// Whatever lies in the inbox, the good items are done and the bad ones named.
func TestOddInboxFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		inbox := filepath.Join(dir, "inbox")
		write(t, filepath.Join(inbox, "good.json"), `{"symbol":"a","text":"What a does."}`)
		write(t, filepath.Join(inbox, "empty.json"), ``)
		write(t, filepath.Join(inbox, "line\nbreak.json"), `{"symbol":"b","text":"What b does."}`)
		write(t, filepath.Join(inbox, strings.Repeat("n", 230)+".json"), `{"symbol":"c","text":"What c does."}`)
		write(t, filepath.Join(inbox, "huge.json"), strings.Repeat(" ", maxItem+1))
		mkdir(t, filepath.Join(inbox, "folder.json"))
		for name, to := range map[string]string{"dangling.json": "nowhere", "to-a-folder.json": "folder.json"} {
			if err := os.Symlink(to, filepath.Join(inbox, name)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			o := runNight(t, up, dir)
			checkConserved(t, dir, o)
			if o.report.Done != 2 || o.report.Dead != 5 || o.exit != batch.ExitDead || up.Stats().Calls != 2 {
				t.Errorf("done %d, dead %v, exit %d, %d calls", o.report.Done, o.report.DeadItems, o.exit, up.Stats().Calls)
			}
		}
	})
}

func TestChangedInputIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		file := filepath.Join(dir, "inbox", "a.json")
		write(t, file, `{"symbol":"a","text":"What a does."}`)
		runNight(t, up, dir)
		write(t, file, `{"symbol":"a","text":"What a does today."}`)
		if o := runNight(t, up, dir); o.report.Skipped != 0 || up.Stats().Calls != 2 {
			t.Errorf("skipped %d, %d calls: want it done again", o.report.Skipped, up.Stats().Calls)
		}
		// Half a result, such as a full disk leaves with other tools, is none.
		write(t, folder(t, dir).Path("a.json"), `{"item":"a.json","summ`)
		if o := runNight(t, up, dir); o.report.Skipped != 0 || o.exit != exitDone {
			t.Errorf("skipped %d, exit %d: half a result passed as done", o.report.Skipped, o.exit)
		}
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	key := func(name string) string { return map[string]string{"OPENAI_API_KEY": "k"}[name] }
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir string)
		getenv func(string) string
		args   []string
		want   string // in the message
	}{
		{"empty inbox", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "inbox")) }, nil, nil, "inbox has no *.json file"},
		{"results cannot be written", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "results"), "a file") }, nil, []string{"-n", "3"}, "results"},
		{"report is a folder", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "report.json")) }, nil, []string{"-n", "3"}, "report.json is a folder"},
		{"no key", nil, nil, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5", "-model", "m"}, "NIGHTLY_API_KEY or OPENAI_API_KEY"},
		{"no limit", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-model", "m"}, "needs -limit"},
		{"no model", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5"}, "needs -model"},
		{"no inbox for a real upstream", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5", "-model", "m"}, "inbox"},
		{"base URL", nil, key, []string{"-base-url", "localhost:1", "-limit", "5", "-model", "m"}, "no http or https URL"},
		{"a limit that no item fits under", nil, nil, []string{"-n", "3", "-limit", "10"}, "after the headroom"},
		{"headroom", nil, nil, []string{"-headroom", "1"}, "-headroom"},
		{"not a number", nil, nil, []string{"-headroom", "NaN"}, "-headroom"},
		{"workers", nil, nil, []string{"-workers", "0"}, "-workers"},
		{"upstream", nil, nil, []string{"-upstream", "moon", "-n", "3"}, "moon"},
		{"more items than there are", nil, nil, []string{"-n", "100000000"}, "-n 100000000 asks for more"},
		{"unknown flag", nil, nil, []string{"-turbo"}, "-turbo"},
		{"stray argument", nil, nil, []string{"now"}, `"now"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.before != nil {
				c.before(t, dir)
			}
			o := runProgram(t, &program{getenv: c.getenv}, dir, c.args...)
			if o.exit != exitUsage || !strings.Contains(o.stderr, c.want) {
				t.Errorf("exit %d, message %q: want %d and %q", o.exit, o.stderr, exitUsage, c.want)
			}
			for _, touched := range []string{"state/letters/deadletter-000001.jsonl", "naive"} {
				if _, err := os.Stat(filepath.Join(dir, touched)); err == nil {
					t.Errorf("%s was made", touched)
				}
			}
		})
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
