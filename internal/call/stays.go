package call

// Stays is the error of a send whose letter is to stay as it was, though no
// guard has refused it: it does not count as a replay, which goes on with the
// other letters.
type Stays struct{ Err error }

func (e *Stays) Error() string { return e.Err.Error() }

// Unwrap returns why the letter stays.
func (e *Stays) Unwrap() error { return e.Err }
