// Function shows the way in for calls that do not go through an http.Client: a
// gRPC stub, a command, somebody else's SDK. The guards are the same; the
// function says what it has used.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/retry"
)

// answer is what the service gives.
type answer struct {
	text   string
	tokens int64
}

// service is a client that knows nothing of any guard.
type service struct{ calls int }

func (s *service) summarise(context.Context, string) (answer, error) {
	if s.calls++; s.calls == 1 {
		return answer{}, errors.New("connection reset by peer")
	}
	return answer{text: "Two refunds.", tokens: 42}, nil
}

func main() {
	day, err1 := budget.New(budget.Config{Limit: 10_000})
	up, err2 := breaker.New(breaker.Config{Name: "summaries"})
	again, err3 := retry.New(retry.Config{Base: 50 * time.Millisecond})
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	var s service

	ctx := budget.WithEstimate(context.Background(), 300)
	text, err := retry.Do(ctx, again, func(ctx context.Context) (string, error) {
		a, err := s.summarise(ctx, "a customer asked for a refund, and so did another")
		budget.Used(ctx, a.tokens)
		return a.text, err
	}, up, day)
	if err != nil {
		log.Fatal(err)
	}

	status, err := day.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s (%d calls, %d tokens spent)\n", text, s.calls, status.Spent)
}
