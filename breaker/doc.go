// Package breaker stops calls to an upstream that fails, and lets one probe at
// a time find out when it works again.
package breaker
