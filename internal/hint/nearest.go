package hint

import "fmt"

// Nearest returns the candidate that is fewest edits away from s, or empty when none
// is near enough to be meant. Of equally near ones it is the first.
func Nearest(s string, candidates []string) string {
	best, least := "", 1+max(1, len(s)/3)
	for _, c := range candidates {
		if d := distance(s, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean returns a hint that names the nearest candidate, or otherwise.
func DidYouMean(s string, candidates []string, otherwise string) string {
	if near := Nearest(s, candidates); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise
}

// distance is the number of edits, an exchange of neighbours being one, that
// turn a into b; limit, when there are at least as many.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff >= limit || -diff >= limit {
		return limit
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
