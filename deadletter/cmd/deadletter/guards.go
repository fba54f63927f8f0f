package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
	"github.com/nightfuse/nightfuse/retry"
)

// guards are what stands between a replay and the upstream: the same state as
// the program's that failed.
type guards struct {
	client    *http.Client
	authorize func(*http.Request) error
	ledger    *budget.File
}

func (g *guards) close() {
	if g.ledger != nil {
		_ = g.ledger.Close()
	}
	g.client.CloseIdleConnections()
}

func (c *guardOptions) open(who party, o *options) (_ *guards, err error) {
	g := &guards{client: &http.Client{CheckRedirect: sameHost}}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.authorize, err = c.auth(who.hosts); err != nil {
		return nil, err
	}
	rt := http.DefaultTransport
	if c.budget != "" {
		day, err := c.openBudget(g, who.owners)
		if err != nil {
			return nil, err
		}
		rt = budget.NewTransport(rt, day)
	}
	if c.breaker != "" {
		up, err := c.openBreaker()
		if err != nil {
			return nil, err
		}
		rt = breaker.NewTransport(rt, up)
	}
	again, err := retry.New(retry.Config{Attempts: o.attempts, AttemptTimeout: o.timeout})
	if err != nil {
		return nil, err
	}
	g.client.Transport = retry.NewTransport(rt, again)
	return g, nil
}

// auth returns how requests get their credential. It goes to one host: a letter
// must not choose who gets it.
func (c *guardOptions) auth(hosts []string) (func(*http.Request) error, error) {
	if c.authEnv == "" {
		return nil, nil
	}
	host := strings.ToLower(c.host)
	switch {
	case host != "" && !slices.Contains(hosts, host):
		return nil, fmt.Errorf("-auth-host: no letter goes to %q, they go to %s", host, strings.Join(hosts, " "))
	case host == "" && len(hosts) > 1:
		return nil, fmt.Errorf("the letters go to %s: say with -auth-host which gets the credential", strings.Join(hosts, " "))
	case host == "" && len(hosts) == 1:
		host = hosts[0]
	}
	value := c.credential
	if http.CanonicalHeaderKey(c.authHeader) == "Authorization" && !strings.Contains(value, " ") {
		value = "Bearer " + value
	}
	return func(req *http.Request) error {
		if strings.ToLower(req.URL.Host) == host {
			req.Header.Set(c.authHeader, value)
		}
		return nil
	}, nil
}

// sameHost follows redirects within a host only: a header such as x-api-key
// would go along to any other.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("a redirect to another host is not followed")
	}
	if len(via) >= 10 {
		return errors.New("too many redirects")
	}
	return nil
}

func (c *guardOptions) openBudget(g *guards, owners []string) (*budget.Budget, error) {
	// A mistyped name would begin with an empty day.
	if found, err := ledgers(c.budget); err != nil || !found {
		return nil, errors.Join(fmt.Errorf("-budget: nothing was spent in %s yet", c.budget), err)
	}
	zone, err := time.LoadLocation(c.zone)
	if err != nil {
		return nil, fmt.Errorf("-zone: %w", err)
	}
	windows := map[string]func(*time.Location) budget.Window{
		"minutely": budget.Minutely, "hourly": budget.Hourly, "daily": budget.Daily, "monthly": budget.Monthly,
	}
	window := windows[c.window]
	if window == nil {
		return nil, fmt.Errorf("-window: %q is none of minutely, hourly, daily and monthly", c.window)
	}
	cfg := budget.Config{Name: c.budgetName, Limit: c.limit, Window: window(zone), Headroom: c.headroom}
	if c.hasHeadroom && c.headroom == 0 {
		cfg.Headroom = -1
	}
	if c.charge != "" {
		owners = []string{c.charge}
	}
	if len(owners) > 1 && owners[0] == "" {
		return nil, errors.New("some letters name no owner and others do: say with -charge who pays, or replay them apart by -owner")
	}
	for _, name := range owners {
		cfg.Owners = append(cfg.Owners, budget.Owner{Name: name})
	}
	if g.ledger, err = budget.OpenFile(c.budget); err != nil {
		return nil, err
	}
	cfg.Store = g.ledger
	names, err := g.ledger.Names(context.Background())
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Name == "" && len(names) == 1:
		cfg.Name = names[0]
	case cfg.Name == "", len(names) > 0 && !slices.Contains(names, cfg.Name):
		// A count of its own would begin, and with it another whole cap.
		return nil, fmt.Errorf("%s holds the counts of %s, say with -budget-name which to book in: %s",
			c.budget, show.Count(len(names), "budget"), strings.Join(names, " "))
	}
	return budget.New(cfg)
}

// ledgers reports whether there are files of the budget's: they have its path
// and an ending.
func ledgers(path string) (bool, error) {
	list, err := os.ReadDir(filepath.Dir(path))
	for _, e := range list {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+".") {
			return true, nil
		}
	}
	return false, err
}

// openBreaker opens the breaker that the state in the folder belongs to.
func (c *guardOptions) openBreaker() (*breaker.Breaker, error) {
	if _, err := os.Stat(c.breaker); err != nil {
		return nil, fmt.Errorf("-breaker: %w", err)
	}
	name := c.breakerName
	if name == "" {
		names, err := breakers(c.breaker)
		if err != nil {
			return nil, fmt.Errorf("-breaker: %w", err)
		}
		if len(names) != 1 {
			// None yet: the program's first failure would open another one.
			return nil, fmt.Errorf("%s holds the state of %s, say with -breaker-name which to ask: %s",
				c.breaker, show.Count(len(names), "breaker"), strings.Join(names, " "))
		}
		name = names[0]
	}
	store, err := breaker.File(c.breaker)
	if err != nil {
		return nil, err
	}
	return breaker.New(breaker.Config{Name: name, Store: store})
}

// breakers returns the names in a folder of states. A file says its own.
func breakers(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var state struct{ Name string }
		if json.Unmarshal(text, &state) == nil && state.Name != "" {
			names = append(names, state.Name)
		}
	}
	return names, nil
}
