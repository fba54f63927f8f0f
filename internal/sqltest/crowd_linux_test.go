package sqltest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// Why: when an upstream ends, all workers bury their items at once, each over a
// connection of its own unless the pool is bounded, and a server has no more than
// so many. It takes away the connections of others, so it runs alone.
func TestMoreClientsThanConnections(t *testing.T) {
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			b := newDatabase(t, d)
			s := b.store(t, nil)
			const clients = 300 // the servers take 200
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: fmt.Sprint(i), Payload: []byte("p")}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := b.count(t, ""); n != clients {
				t.Errorf("%d letters, want %d", n, clients)
			}
		})
	}
}
