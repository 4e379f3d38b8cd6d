// Package number has a number that may not be known. Much of what is read of a
// process can fail, or does not exist on a platform, and no zero may be invented
// in its place: so whoever takes the number out must say what to do without it.
package number

// Number is a reading that may not be known. Its zero value is not known, and
// neither is what is computed from one that is not.
//
// The tempting alternative is NaN, which needs no second field. But comparisons
// with it are quietly false, and JSON cannot hold it.
type Number struct {
	value float64
	known bool
}

// Known is the number v.
func Known(v float64) Number { return Number{v, true} }

// If is the number v where it is known, and an unknown one otherwise.
func If(known bool, v float64) Number {
	if !known {
		return Number{}
	}
	return Known(v)
}

// Mean is the mean of what adds up to sum. It is not known of nothing.
func Mean(sum, count float64) Number { return If(count > 0, sum/count) }

// Get returns the number, and whether it is known; 0 where it is not.
func (n Number) Get() (v float64, ok bool) { return n.value, n.known }

// IsKnown reports whether the number is known.
func (n Number) IsKnown() bool { return n.known }

// Or returns the number, or v where it is not known.
func (n Number) Or(v float64) float64 {
	if !n.known {
		return v
	}
	return n.value
}

// Growth returns how much a total grew. One that fell has begun anew, and counts
// as not having grown.
func (n Number) Growth(before Number) Number {
	return If(n.known && before.known, max(0, n.value-before.value))
}

// Over returns the number divided by divisor.
func (n Number) Over(divisor float64) Number { return If(n.known, n.value/divisor) }

// Plus returns the sum of both.
func (n Number) Plus(other Number) Number {
	return If(n.known && other.known, n.value+other.value)
}

// Less returns what is left when other is taken away, at least 0. Where other is
// not known, nothing is taken away.
func (n Number) Less(other Number) Number {
	return If(n.known, max(0, n.value-other.Or(0)))
}

// Max returns the larger one of those that are known.
func (n Number) Max(other Number) Number {
	if !n.known || other.known && other.value > n.value {
		return other
	}
	return n
}
