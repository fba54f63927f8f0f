// Command measure prints how well the signatures of labelled messages agree
// with their labels.
//
//	go run ./signature/internal/measure [-v] [-raw] [-t] [-ids] FILE...
//	go run ./signature/internal/measure -speed
//
// A file holds lines of the form group, tab, message; in a message \\ \n \r and
// \t are escapes unless -raw is given. Printed are the group accuracy (share of
// messages whose cluster is exactly their group), F1 over pairs, merged
// clusters, split groups, the families name@CODE that are intact and the
// decoy_* groups that are whole; -v adds each fault;
// -t prints templates instead, -ids signatures.
//
// -speed prints how much faster signing is than lower case, expressions and
// SHA-256: medians of rounds that take turns, so that a busy machine slows all
// alike.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nightfuse/nightfuse/signature"
	"github.com/nightfuse/nightfuse/signature/internal/grouping"
)

func main() {
	verbose := flag.Bool("v", false, "list merged clusters and split groups")
	raw := flag.Bool("raw", false, "messages have no escapes")
	show := flag.Bool("t", false, "print group and template of each message")
	ids := flag.Bool("ids", false, "print the signature of each message")
	fast := flag.Bool("speed", false, "compare with expressions instead of reading files")
	flag.Parse()
	if *fast {
		speed(os.Stdout)
		return
	}
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "measure: name at least one file of group<TAB>message lines")
		os.Exit(2)
	}
	var ga, f1 float64
	for _, name := range flag.Args() {
		list, err := read(name, *raw)
		if err != nil {
			fmt.Fprintln(os.Stderr, "measure:", err)
			os.Exit(1)
		}
		if *show || *ids {
			for _, m := range list {
				if *ids {
					fmt.Println(signature.OfString(m.Text))
				} else {
					fmt.Printf("%s\t%s\n", m.Group, signature.Normalize(m.Text))
				}
			}
			continue
		}
		r := grouping.Measure(list, signature.Normalize)
		r.Fprint(os.Stdout, filepath.Base(name), *verbose)
		ga += r.GA
		f1 += r.F1
	}
	if n := float64(flag.NArg()); n > 1 && !*show && !*ids {
		fmt.Printf("mean of %.0f files: GA %.3f F1 %.3f\n", n, ga/n, f1/n)
	}
}

func read(name string, raw bool) ([]grouping.Message, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return grouping.Read(f, raw)
}
