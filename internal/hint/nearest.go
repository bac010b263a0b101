package hint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Nearest returns the first of the candidates with the fewest edits from s. It returns an empty string if all need more edits than a third
// of the bytes of s, and more than one.
func Nearest(s string, candidates []string) string {
	best, least := "", 1+max(1, len(s)/3)
	for _, c := range candidates {
		if d := distance(s, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// Within returns the first of the candidates with the fewest edits from s, or an empty string if all need more than the
// given number of edits. A candidate that needs as many edits as s has letters is never returned.
func Within(edits int, s string, candidates []string) string {
	best, least := "", min(edits+1, len(s))
	for _, c := range candidates {
		if d := distance(s, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// Few returns candidates that need at most one edit for each four bytes of s, or one edit, the nearest first. Their number is at most most.
func Few(s string, candidates []string, most int) []string {
	limit := 1 + max(1, len(s)/4)
	by := map[string]int{}
	for _, c := range candidates {
		if d := distance(s, c, limit); d < limit {
			by[c] = d
		}
	}
	near := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[a]-by[b], strings.Compare(a, b)) })
	return near[:min(most, len(near))]
}

// DidYouMean returns a hint that names the candidate that [Nearest] returns. If it finds no candidate, it returns the argument otherwise.
func DidYouMean(s string, candidates []string, otherwise string) string {
	if near := Nearest(s, candidates); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise
}

// distance returns the number of edits that turn a into b, or limit if that is less. An exchange of neighbouring bytes
// is one edit.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff >= limit || -diff >= limit {
		return limit
	}
	rows := make([][]int, len(a)+1) // by the length of the prefixes of a and b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(rows[len(a)][len(b)], limit)
}
