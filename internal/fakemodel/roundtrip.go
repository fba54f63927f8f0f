package fakemodel

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// RoundTrip implements http.RoundTripper without a connection. It closes the
// request's body before it returns and leaves the rest of the request alone.
// When the request's context ends, it returns the context's cause.
func (m *Model) RoundTrip(req *http.Request) (*http.Response, error) {
	data, err := readBody(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p := m.arrive(&arrival{
		method: methodOf(req), path: req.URL.Path, header: req.Header,
		body: data, tooLong: len(data) > maxBody,
	})
	if err := m.wait(ctx, p); err != nil {
		m.done()
		return nil, err
	}
	if !p.stream {
		m.done()
	}
	m.mu.Lock()
	m.count.openBodies++
	m.mu.Unlock()
	length := int64(-1)
	if !p.stream {
		length = int64(len(p.parts[0]))
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", p.status, http.StatusText(p.status)),
		StatusCode: p.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        p.header,
		Body:          &body{m: m, ctx: ctx, plan: p, closed: make(chan struct{})},
		ContentLength: length,
		Request:       req,
	}, nil
}

// methodOf returns req's method, "" standing for GET in a client's request.
func methodOf(req *http.Request) string { return orElse(req.Method, http.MethodGet) }

// readBody reads and closes the body, up to one byte more than is allowed.
func readBody(req *http.Request) (data []byte, err error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() {
		if closeErr := req.Body.Close(); err == nil && closeErr != nil {
			data, err = nil, closeErr
		}
	}()
	return io.ReadAll(io.LimitReader(req.Body, maxBody+1))
}
