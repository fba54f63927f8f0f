// Package budget keeps a batch within what it may spend: a [Budget] reserves
// units before a call is made, and a [Pacer] keeps all workers of one
// credential to its rate.
package budget
