package main

func Example() {
	main()
	// Output: Two refunds. (2 calls, 42 tokens spent)
}
