package main

func Example() {
	main()
	// Output:
	// failed: false, pending: false, after 2 calls
	// failed: true, pending: false, after 3 calls
	// failed: true, pending: true, after 3 calls
}
