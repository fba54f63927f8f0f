package durable

import "time"

// The waits between the tries of a rename: a quarter of a second in all, which
// outlasts a reader or a virus scanner that has the target open.
const (
	renameTries     = 10
	renameFirstWait = time.Millisecond
	renameLastWait  = 50 * time.Millisecond
)

// retryRename repeats rename while its error may pass by itself.
func retryRename(rename func() error, mayPass func(error) bool) error {
	wait := renameFirstWait
	for try := 1; ; try++ {
		err := rename()
		if err == nil || try == renameTries || !mayPass(err) {
			return err
		}
		time.Sleep(wait)
		wait = min(2*wait, renameLastWait)
	}
}
