package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

func TestLooking(t *testing.T) {
	t.Parallel()
	dir := fill(t,
		deadletter.Record{
			ItemID: "doc-1", Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded", Owner: "nightly",
			Labels: map[string]string{"file": "a.json"}, Payload: []byte("one\x00\xff"), EstTokens: 70, Method: "POST", URL: "https://api.example/v1", RunID: "r1",
		},
		deadletter.Record{ItemID: "doc-2", Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded", Owner: "day", EstTokens: 30},
		deadletter.Record{ItemID: "doc-3", Signature: "1:bbbbbbbbbbbb", SignatureText: "connection reset", Err: "connection reset", LastFailedAt: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)},
	)
	id := deadletter.ID("nightly", "doc-1")

	for _, tt := range []struct {
		args string
		want []string // items listed
	}{
		{"", []string{"doc-3", "doc-1", "doc-2"}},
		{"-signature 1:bbbbbbbbbbbb", []string{"doc-3"}},
		{"-status 503", []string{"doc-1", "doc-2"}},
		{"-status 0,404", []string{"doc-3"}},
		{"-owner day", []string{"doc-2"}},
		{"-label file=a.json", []string{"doc-1"}},
		{"-run r1", []string{"doc-1"}},
		{"-older 24h", []string{"doc-3"}},
		{"-newer 24h", []string{"doc-1", "doc-2"}},
		{"-older 2021-01-01T00:00:00Z", []string{"doc-3"}},
		{"-queue other", nil},
		{"-state acked,discarded", nil},
		{"-state all -limit 2", []string{"doc-3", "doc-1"}},
		{"doc-2 " + id[:8], []string{"doc-1", "doc-2"}},
		{"-status 503 doc-3", nil},
	} {
		args := append([]string{"ls", "--json", dir}, strings.Fields(tt.args)...)
		r := cli(t, args...)
		r.want(t, 0)
		var got []string
		for d := json.NewDecoder(strings.NewReader(r.out)); ; {
			var rec deadletter.Record
			if err := d.Decode(&rec); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, rec.ItemID)
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Errorf("ls %s: %s", tt.args, diff)
		}
	}

	r := cli(t, "ls", dir)
	r.want(t, 0, "SIGNATURE")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), r.out)
	}
	cli(t, "show", dir, strings.Fields(lines[1])[0]).want(t, 0, "doc-3") // what is shown can be given back
	for _, l := range lines {                                            // aligned: every column begins where its head does
		if strings.Index(lines[0], "SIGNATURE") < 1 || l[strings.Index(lines[0], "SIGNATURE")-1] != ' ' {
			t.Errorf("not aligned:\n%s", r.out)
		}
	}
	cli(t, "groups", dir).want(t, 0, "503 overloaded", "connection reset", "100", "3 dead")
	cli(t, "groups", dir, "-json").want(t, 0, `"count":2`, `"dead":3`)
	cli(t, "show", dir, "doc-1").want(t, 0, id, "https://api.example/v1", "label file", "a.json", "nightly", "5 B")
	cli(t, "show", dir, "doc-1", "-json").want(t, 0, `"item_id":"doc-1"`)
	if r := cli(t, "payload", dir, "doc-1"); r.out != "one\x00\xff" || r.code != 0 {
		t.Errorf("%q", r.out)
	}
	cli(t, "payload", dir, "doc-1", "-json").want(t, 0, `"payload":"b25lAP8="`)
	cli(t, "export", dir, "-status", "503").want(t, 0, `"payload":"b25lAP8="`, `"item_id":"doc-2"`)
	cli(t, "verify", dir).want(t, 0, "3 letters", "no damage")
	cli(t, "verify", dir, "-json").want(t, 0, `"damage":[]`, `"letters":3`)
}

func TestVerifyTellsDamage(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a", Err: "first", Payload: []byte("p")}, deadletter.Record{ItemID: "b"}, deadletter.Record{ItemID: "c"})
	seg := filepath.Join(dir, "deadletter-000001.jsonl")
	b, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[1] = bytes.Replace(lines[1], []byte(`"nightly"`), []byte(`"daylily"`), 1)
	if err := os.WriteFile(seg, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, "verify", dir).want(t, 5, "deadletter-000001.jsonl", "1 place damaged", "2 letters")
	cli(t, "verify", dir, "-json").want(t, 5, `"line":2`)
	cli(t, "ls", dir).want(t, 0, "1 damaged line", "verify")
}

// A letter that was named and is not replayed or discarded is told of.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a"}, deadletter.Record{ItemID: "b"}, deadletter.Record{ItemID: "c"})
	cli(t, "discard", dir, "b", "-reason", "old", "-yes").want(t, 0)
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := j.Claim(t.Context(), deadletter.ClaimReq{N: 1, Filter: deadletter.Filter{IDs: []string{deadletter.ID("nightly", "c")}}})
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	if err := j.Resolve(t.Context(), claims[0].Token, deadletter.Outcome{Verb: deadletter.Quarantine}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	discarded, quarantined := "b is left out: it is discarded", "c is left out: it is quarantined, say -state quarantined"
	cli(t, "replay", dir, "a", "b", "c", "-dry-run").want(t, 0, "to send: 1 of 1 letter", discarded, quarantined)
	cli(t, "replay", dir, "c").want(t, 1, quarantined+"\ndeadletter: no letter matches")
	cli(t, "discard", dir, "b", "-reason", "again").want(t, 1, discarded+"\ndeadletter: no letter matches")
}
