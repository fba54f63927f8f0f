package main

func Example() {
	main()
	// Output:
	// run: failed [doc-2] left because of <nil> after 3 calls
	// run: failed [] left because of <nil> after 3 calls
	// page: 200 has doc-2: true
	// replay: acked 1 of 1 results 3 after 4 calls
}
