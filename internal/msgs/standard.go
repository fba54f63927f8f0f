package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

func standard() []failure {
	dir, err := os.MkdirTemp("", "msgs")
	if err != nil {
		panic(err)
	}
	return []failure{
		{"fs_missing", func(m *maker) error { _, err := os.Open(filepath.Join(dir, m.hex(6), m.uuid()+".json")); return err }},
		{"fs_missing", func(m *maker) error {
			_, err := os.ReadFile([]string{"in.json", "b/c.txt", "report-3.csv", "./x.log", "../q.yaml"}[m.n])
			return err
		}},
		{"fs_not_dir", func(m *maker) error {
			f := filepath.Join(dir, m.hex(9))
			_ = os.WriteFile(f, nil, 0o600)
			_, err := os.Open(filepath.Join(f, "x"))
			return err
		}},
		{"fs_exists", func(m *maker) error {
			f := filepath.Join(dir, m.hex(9))
			_ = os.Mkdir(f, 0o700)
			return os.Mkdir(f, 0o700)
		}},
		{"fs_rename", func(m *maker) error { return os.Rename(filepath.Join(dir, m.hex(5)), filepath.Join(dir, m.hex(7))) }},
		{"fs_not_empty", func(m *maker) error {
			f := filepath.Join(dir, m.hex(9))
			_ = os.MkdirAll(filepath.Join(f, "x"), 0o700)
			return os.Remove(f)
		}},
		{"exec_missing", func(m *maker) error { return exec.Command("tool-" + m.hex(4)).Run() }},
		{"exec_status@2", func(m *maker) error { return item(m, exec.Command("sh", "-c", "exit 2").Run()) }},
		{"exec_status@137", func(m *maker) error { return item(m, exec.Command("sh", "-c", "exit 137").Run()) }},
		{"exec_killed", func(m *maker) error { return item(m, exec.Command("sh", "-c", "kill -9 $$").Run()) }},
		{"json_end", func(m *maker) error { return item(m, json.Unmarshal([]byte(`{"a":`), new(any))) }},
		{"json_html", func(m *maker) error { return item(m, json.Unmarshal([]byte(`<html>`), new(any))) }},
		{"json_type", func(m *maker) error {
			var v struct {
				Choices []struct{ Index int } `json:"choices"`
			}
			return json.Unmarshal([]byte(`{"pad":"`+m.hex(m.n)+`","choices":[{"Index":"x"}]}`), &v)
		}},
		{"json_unknown", func(m *maker) error {
			d := json.NewDecoder(strings.NewReader(`{"` + []string{"foo", "bar", "max_tokens", "stream", "user"}[m.n] + `":1}`))
			d.DisallowUnknownFields()
			return d.Decode(&struct{}{})
		}},
		{"xml_syntax", func(m *maker) error {
			return xml.Unmarshal([]byte(strings.Repeat("\n", m.digits(1, 500))+"<a>"), &struct{}{})
		}},
		{"csv_fields", func(m *maker) error {
			_, err := csv.NewReader(strings.NewReader(strings.Repeat("a,b\n", m.digits(1, 500)) + "a\n")).ReadAll()
			return err
		}},
		{"gzip_header", func(m *maker) error {
			_, err := gzip.NewReader(bytes.NewReader([]byte(m.base62(20))))
			return item(m, err)
		}},
		{"base64_byte", func(m *maker) error {
			_, err := base64.StdEncoding.DecodeString(strings.Repeat("AAAA", m.digits(1, 300)) + "!")
			return err
		}},
		{"hex_byte", func(m *maker) error { _, err := hex.DecodeString("zz" + m.hex(4)); return item(m, err) }},
		{"atoi_syntax", func(m *maker) error { _, err := strconv.Atoi(m.hex(5) + "x"); return err }},
		{"atoi_range", func(m *maker) error {
			_, err := strconv.Atoi("9999999999" + fmt.Sprint(m.digits(1e9, 2e9)) + "9999")
			return err
		}},
		{"parse_float", func(m *maker) error { _, err := strconv.ParseFloat("n-"+m.hex(4), 64); return err }},
		{"parse_bool", func(m *maker) error { _, err := strconv.ParseBool("y" + m.hex(2)); return err }},
		{"duration", func(m *maker) error {
			_, err := time.ParseDuration(fmt.Sprint(m.digits(1, 999)) + []string{"q", "x", "d", "y", "w"}[m.n])
			return err
		}},
		{"time_parse", func(m *maker) error { _, err := time.Parse(time.RFC3339, "night-"+m.hex(4)); return err }},
		{"url_escape", func(m *maker) error { _, err := url.Parse("https://api.example.net/" + m.hex(5) + "%zz"); return err }},
		{"url_host", func(m *maker) error { _, err := url.Parse(fmt.Sprintf("http://bad host%d/", m.n)); return err }},
		{"mail_addr", func(m *maker) error { _, err := mail.ParseAddress("<" + m.base62(5)); return err }},
		{"netip", func(m *maker) error {
			_, err := netip.ParseAddr("999." + fmt.Sprint(m.digits(1, 99)) + ".1.1")
			return err
		}},
		{"ctx_deadline", func(m *maker) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
			defer cancel()
			<-ctx.Done()
			return item(m, ctx.Err())
		}},
		{"ctx_cancel", func(m *maker) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return item(m, ctx.Err())
		}},
		{"ctx_cause", func(m *maker) error {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(fmt.Errorf("worker %d lost its lease after %v", m.digits(1, 99), time.Duration(m.digits(1, 1e12))))
			return item(m, context.Cause(ctx))
		}},
		{"unexpected_eof", func(m *maker) error {
			_, err := io.ReadFull(strings.NewReader("x"), make([]byte, 9))
			return item(m, err)
		}},
		{"short_write", func(m *maker) error { return item(m, io.ErrShortWrite) }},
		{"panic_index", func(m *maker) (err error) {
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			_ = make([]int, m.digits(1, 50))[m.digits(60, 600)]
			return nil
		}},
		{"panic_slice", func(m *maker) (err error) {
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			_ = make([]int, m.digits(1, 50))[:m.digits(60, 600)]
			return nil
		}},
		{"panic_nil", func(m *maker) (err error) {
			defer func() { err = fmt.Errorf("item %d: panic: %v", m.n, recover()) }()
			var p *maker
			return errors.New(fmt.Sprint(p.n))
		}},
		{"panic_assert", func(m *maker) (err error) {
			defer func() { err = fmt.Errorf("item %s: panic: %v", m.uuid(), recover()) }()
			var v any = m.n
			return errors.New(v.(string))
		}},
	}
}

// item wraps err as a batch would.
func item(m *maker, err error) error {
	if m.n%2 == 0 {
		return fmt.Errorf("item %s: %w", m.uuid(), err)
	}
	return fmt.Errorf("item %d: %w", m.digits(1, 99999), err)
}
