// Package durable is the one home of files that must survive a crash: whole
// files replaced atomically, lock files, and a small record in two slots that
// is rewritten in place.
//
// # What to use
//
//   - [WriteFile] replaces a whole file: a reader, and whoever starts after a
//     crash, finds the old content or the new one. For state that is written
//     now and then and that people read.
//   - [Replace] is WriteFile without the directory sync, for many results in
//     one folder; one [SyncDir] later makes all their names durable.
//   - [Slots] holds one value of at most 1 MiB that several processes change
//     many times a second: about a fifth of the cost of a replacement, because
//     nothing is created or renamed.
//   - [Lock] is a lock file for short critical sections, [TryLock] one for the
//     life of a program, with its holder's name in it.
//
// Every function takes an [FS]; nil is the operating system. The package
// durabletest has one that fails on demand and one that models a power cut.
//
// # Rules
//
//	a whole file      temp in the same directory, write, sync, rename, sync of the directory
//	a failed write    the temp file is removed; the old file is as it was
//	a failed sync     is never repeated alone: the bytes are written again first
//	a killed writer   leaves a temp file that Sweep removes, and no lock
//	a lock file       is never renamed or deleted while in use
//	unreadable state  is an error that keeps the files, never a fresh start
//
// Waiting for a lock is in real time: what is waited for is another process,
// which no fake clock moves.
//
// # What it does not do
//
// It does not lock across hosts: flock on a network file system may exclude
// only the processes of one host, so keep these files on a local disk. On
// Windows the permission bits say nothing about who may read a file, and the
// name of a replaced file is durable when the file system says so, since a
// directory cannot be synced there. Where the system has no flock (Solaris,
// AIX, Plan 9, WebAssembly) locks and slots refuse with
// [errors.ErrUnsupported]. It does not repair, compact, migrate or encrypt.
package durable
