package main

func Example() {
	main()
	// Output: 200 OK after 2 calls
}
