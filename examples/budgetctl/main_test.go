package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

func TestStatusAndAdjust(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	store, err := budget.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	// The program that spends runs on, by a window long enough for the test.
	b, err := budget.New(budget.Config{
		Name: "month", Limit: 1000, Window: budget.Monthly(time.UTC), Store: store,
		Owners: []budget.Owner{{Name: "nightly"}, {Name: "human", UseHeadroom: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reserve(context.Background(), "nightly", 600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-file", path, "-name", "month", "-limit", "1000", "-window", "monthly", "-owner", "nightly", "-owner", "human+"}
	ctl := func(args ...string) (string, string, int) {
		var out, errs strings.Builder
		code := run(append(flags[:len(flags):len(flags)], args...), &out, &errs)
		return out.String(), errs.String(), code
	}
	out, errs, code := ctl("status")
	if code != 0 || !strings.Contains(out, "600") || !strings.Contains(out, "850") || !strings.Contains(out, "human") {
		t.Errorf("status: %d\n%s%s", code, out, errs)
	}
	if strings.Contains(out, "nothing is spent") || !strings.Contains(out, "1000 with the headroom") {
		t.Errorf("status:\n%s", out)
	}
	if out, _, _ := ctl("-name", "mouth", "status"); !strings.Contains(out, "nothing is spent") {
		t.Errorf("another name looks like a month in which nothing was spent:\n%s", out)
	}
	out, errs, code = ctl("-json", "adjust", "nightly", "-250")
	var st budget.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil || code != 0 {
		t.Fatalf("adjust: %d, %v\n%s%s", code, err, out, errs)
	}
	if st.Spent != 350 || st.Owners[0].Spent != 350 {
		t.Errorf("after the correction: %+v", st)
	}
	if _, err := b.Reserve(context.Background(), "nightly", 500); err != nil {
		t.Errorf("the program did not get what was given back: %v", err)
	}
	if out, errs, code = ctl("adjust", "nobody", "5"); code != 2 || !strings.Contains(errs, "unknown owner") {
		t.Errorf("adjusting a stranger: %d\n%s%s", code, out, errs)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "spend")
	store, err := budget.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 1, "-file"},
		{"-h", 0, "usage"},
		{"-file PATH", 1, "command"},
		{"-file PATH status", 1, "Limit"},
		{"-file PATH -limit 5 -zone Mars/Olympus status", 1, "Mars/Olympus"},
		{"-file PATH -limit 5 -window weekly status", 1, "weekly"},
		{"-file PATH -limit 5 -owner a=x status", 1, "ceiling"},
		{"-file PATH -limit 50 -owner a=5 adjust a much", 1, "much"},
		{"-file PATH -limit 50 stats", 1, "status"},
		{"-file PATHX -limit 50 status", 2, "no budget at"},
	} {
		var out, errs strings.Builder
		code := run(strings.Fields(strings.ReplaceAll(c.args, "PATH", path)), &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d, want %d and %q:\n%s", c.args, code, c.code, c.want, errs.String())
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("a mistake has made a file: %v", files)
	}
}
