package deadletter

import "slices"

// top keeps the n first letters of an order, the last of them at the root.
type top struct {
	n     int
	less  func(a, b *letter) int
	items []*letter
}

func newTop(n int, less func(a, b *letter) int) *top { return &top{n: n, less: less} }

func (t *top) add(l *letter) {
	if len(t.items) < t.n {
		t.items = append(t.items, l)
		for i := len(t.items) - 1; i > 0; {
			up := (i - 1) / 2
			if t.less(t.items[i], t.items[up]) <= 0 {
				break
			}
			t.items[i], t.items[up] = t.items[up], t.items[i]
			i = up
		}
		return
	}
	if t.less(l, t.items[0]) >= 0 {
		return
	}
	t.items[0] = l
	for i := 0; ; {
		worst := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(t.items); k++ {
			if t.less(t.items[k], t.items[worst]) > 0 {
				worst = k
			}
		}
		if worst == i {
			return
		}
		t.items[i], t.items[worst] = t.items[worst], t.items[i]
		i = worst
	}
}

// sorted returns the letters in order and ends the use of t.
func (t *top) sorted() []*letter {
	slices.SortFunc(t.items, t.less)
	return t.items
}
