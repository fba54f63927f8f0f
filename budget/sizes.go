package budget

import "math"

// sizes finds out whether the upstream counts requests or tokens, by whether
// it refuses the large calls more often.
type sizes struct {
	n, mean    float64 // of all calls, tokens
	logs, logq float64 // sums of the logarithms and their squares
	no, noLogs float64 // of refused calls
	tokens     bool    // it counts tokens
}

const (
	sizeSure = 3.5 // standard errors; 2.5 gave false alarms
	sizeMin  = 4   // refused calls
)

// cost is 1, or the size over the mean size.
func (z *sizes) cost(tokens int64) float64 {
	if !z.tokens || tokens <= 0 || z.mean <= 0 {
		return 1
	}
	return float64(tokens) / z.mean
}

func (z *sizes) all(tokens int64) {
	if tokens <= 0 {
		return
	}
	z.n++
	z.mean += (float64(tokens) - z.mean) / min(z.n, 1000)
	l := math.Log(float64(tokens))
	z.logs += l
	z.logq += l * l
}

func (z *sizes) refused(tokens int64) {
	if tokens <= 0 || z.tokens {
		return
	}
	z.no++
	z.noLogs += math.Log(float64(tokens))
	if z.no < sizeMin || z.n < 2*sizeMin {
		return
	}
	mean := z.logs / z.n
	dev := math.Sqrt(max(z.logq/z.n-mean*mean, 0))
	if dev > 1e-3 && (z.noLogs/z.no-mean)/(dev/math.Sqrt(z.no)) > sizeSure {
		z.tokens = true
	}
}
