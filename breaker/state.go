package breaker

import "fmt"

// State is a breaker's state. The zero value is Closed.
type State uint8

// The states.
const (
	Closed   State = iota // calls pass
	Open                  // calls are refused until the cooldown is over
	HalfOpen              // one probe is out, or may go out
)

var stateNames = [...]string{Closed: "closed", Open: "open", HalfOpen: "half-open"}

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText is String for encoders.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if string(text) == name {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("breaker: unknown state %q", text)
}
