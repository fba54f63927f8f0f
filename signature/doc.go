// Package signature gives errors fingerprints: identical failures have one
// signature, whatever ids, numbers and addresses they carry.
package signature
