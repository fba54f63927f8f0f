// Package durabletest has the file systems that tests of durable state need:
// [Faults] makes any step fail and can kill the process that uses it, and
// [Disk] keeps its files in memory and loses in a power cut what a real disk
// may lose.
//
// It does not model a disk that answers a sync before the data is stable, nor
// one that writes half of a sector.
package durabletest
