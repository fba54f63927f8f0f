// Package call is what the guards know about the call in hand: one [Box] in
// the context, and the one-method behaviours by which an error says what it
// means.
//
// A Box is itself a context. Its settings (item, owner, estimate, limits) are
// fixed once it is handed on and are inherited by every Box below it, so one
// look at the nearest Box answers every question. What changes during a call
// is behind two pointers: [Item], shared by every call made for one item, and
// [Attempt], shared by the transports that one attempt passes through.
//
// Readers look in the box before they ask an error: some clients, and
// http.Client with a Timeout, replace our error by a text.
package call
