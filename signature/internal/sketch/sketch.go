// Package sketch is the peer the scanner is measured against: a message in
// lower case, one expression for each kind of value to fold, and SHA-256.
package sketch

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

type rule struct {
	expr *regexp.Regexp
	mark string
}

var (
	uuid   = rule{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"}
	hexa   = rule{regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{8,}\b`), "<hex>"}
	ip     = rule{regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(:\d+)?\b`), "<ip>"}
	time   = rule{regexp.MustCompile(`\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d(\.\d+)?z?`), "<time>"}
	number = rule{regexp.MustCompile(`\d+`), "<n>"}
	space  = rule{regexp.MustCompile(`\s+`), " "}

	all    = []rule{uuid, hexa, ip, time, number, space}
	few    = []rule{uuid, hexa, number, space}
	joined = []rule{{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+`), "#"}}
	least  = []rule{number}
)

// Normalize folds the kinds of values that the scanner folds: UUIDs,
// hexadecimal, addresses, times, numbers and blanks.
func Normalize(msg string) string { return fold(msg, all) }

// Of hashes what Normalize gives.
func Of(msg string) string { return sum(fold(msg, all)) }

// Few is Of without the expressions for addresses and times.
func Few(msg string) string { return sum(fold(msg, few)) }

// Joined is Few as one expression of alternatives.
func Joined(msg string) string { return sum(fold(msg, joined)) }

// Least folds digits alone, the least that a sketch can do.
func Least(msg string) string { return sum(fold(msg, least)) }

func fold(msg string, rules []rule) string {
	msg = strings.ToLower(msg)
	for _, r := range rules {
		msg = r.expr.ReplaceAllString(msg, r.mark)
	}
	return msg
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:6])
}
