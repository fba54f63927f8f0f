package signature_test

import (
	"errors"
	"fmt"

	"github.com/nightfuse/nightfuse/signature"
)

func ExampleOf() {
	a := errors.New("item 17: upstream 503 after 1.2s (request_id=req_011CR8EGGfUOcsdkaUlXku4c)")
	b := errors.New("item 3120: upstream 503 after 870ms (request_id=req_633be675f7e47f2a1167eeece6a47147)")
	c := errors.New("item 17: upstream 429 after 1.2s (request_id=req_011CR8EGGfUOcsdkaUlXku4c)")
	fmt.Println(signature.Of(a) == signature.Of(b), signature.Of(a) == signature.Of(c))
	fmt.Println(signature.Explain(a).Template)
	// Output:
	// true false
	// item #: upstream 503 after # (request_id=#)
}

func ExampleNormalize() {
	fmt.Println(signature.Normalize(`Get "https://api.example.net/v1/items/7?key=s3cr3t": dial tcp 10.0.0.7:443: i/o timeout`))
	fmt.Println(signature.Normalize("read 200 of 29948 rows from shard 503"))
	// Output:
	// get "https://api.example.net": dial tcp #: i/o timeout
	// read # of # row from shard #
}

func ExampleNew() {
	s, err := signature.New(signature.Config{
		Keep:   []string{"tenant-"},
		Coarse: []int{502, 503, 504},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Normalize("tenant-42: 7 items refused"))
	// Output:
	// tenant-42: # item refused
}
