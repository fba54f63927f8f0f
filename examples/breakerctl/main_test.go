package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := breaker.File(dir)
	if err != nil {
		t.Fatal(err)
	}
	up, err := breaker.New(breaker.Config{Name: "model-api", Store: store, StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p, err := up.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Failure(errors.New("status 503"))

	for _, step := range []struct {
		args  string
		code  int
		wants string // all of these words, in the output or the error
	}{
		{"", 1, "usage:"},
		{dir, 1, "usage:"},
		{dir + " open model-api now", 1, "usage:"},
		{dir + "/missing state", 1, "missing"},
		{dir + " state", 0, "model-api closed"},
		{dir + " state other", 1, "other model-api"},
		{dir + " reset other please", 1, "other"},
		{dir + " trip model-api", 1, "usage:"},
		{dir + " trip model-api maintenance", 0, "model-api open maintenance"},
		{dir + " state model-api", 2, "model-api open"},
		{dir + " reset model-api done", 0, "model-api closed maintenance"},
		{dir + " trip planned early", 0, "planned open early"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(step.args), &out, &errs)
		text := out.String() + errs.String()
		for want := range strings.FieldsSeq(step.wants) {
			if code != step.code || !strings.Contains(text, want) {
				t.Errorf("breakerctl %s: exit code %d, want %d, %q in\n%s", step.args, code, step.code, want, text)
			}
		}
		if step.args == dir+" trip model-api maintenance" {
			// The program that is running sees it at its next call.
			if _, err := up.Allow(t.Context()); !errors.Is(err, breaker.ErrOpen) {
				t.Errorf("Allow in the running program = %v, want a refusal", err)
			}
		}
	}

	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{dir, "state"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "broken.json") {
		t.Errorf("with a broken file: exit code %d, %s", code, errs.String())
	}
}
