// Package modelapi is the one place that knows what the answers of metered
// model APIs mean: which failure a body names, how long the server asks to
// wait, what a call has used. It recognises shapes, not hosts.
package modelapi
