package main

import (
	"fmt"
	"io"
	"strings"
)

// judge compares the measurements with the targets.
func (r *scaleReport) judge() {
	var worst struct {
		growth float64
		what   string
	}
	for _, row := range r.Rows {
		for _, growth := range row.Growth {
			if row.Unit != "MB/s" && growth > worst.growth {
				worst.growth, worst.what = growth, row.Measure+", "+row.Unit
			}
		}
	}
	aim := func(what string, value, most float64) {
		r.Goals = append(r.Goals, goal{What: what, Value: value, Most: most, Met: value <= most})
	}
	if worst.what != "" {
		aim("growth by ten times as many versions: "+worst.what, worst.growth, scaleGrowth)
	}
	last := min(len(r.Versions), 3) - 1 // up to 100,000
	for _, row := range r.Rows {
		switch {
		case row.Measure == rowIdle:
			aim(fmt.Sprintf("%s, of %d versions, MB", row.Measure, r.Versions[0]), row.Values[0]/1e6, idleTarget/1e6)
		case row.Measure == rowReady && row.Unit == "s":
			aim(fmt.Sprintf("%s, of %d versions, s", row.Measure, r.Versions[last]), row.Values[last], readyTarget)
		case strings.HasSuffix(row.Measure, rowServer):
			aim(fmt.Sprintf("%s, of %d versions, MB", row.Measure, r.Versions[last]), row.Values[last]/1e6, verbTarget/1e6)
		}
	}
}

// writeText prints a line for each measure: its values, each with its ratio to the one before.
func (r *scaleReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "\nVersions of modules that are kept, %d of each module; of more than %d, some have the same content\n\n", versionsOfModule, scaleBlobs)
	fmt.Fprint(w, "measure")
	for i, n := range r.Versions {
		if fmt.Fprintf(w, "\t%d", n); i > 0 {
			fmt.Fprint(w, "\tgrowth")
		}
	}
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		fmt.Fprint(w, row.Measure)
		for i, value := range row.Values {
			if fmt.Fprint(w, "\t", row.text(value)); i > 0 {
				fmt.Fprintf(w, "\t× %.1f", row.Growth[i-1])
			}
		}
		fmt.Fprintln(w)
	}
	writeGoals(w, r.Goals)
}

func (r *scaleRow) text(value float64) string {
	switch r.Unit {
	case "bytes":
		return fmt.Sprintf("%.0f MB", value/1e6)
	case "cpu":
		return inUnit(value) + " cpu"
	}
	return fmt.Sprintf("%.2f %s", value, r.Unit)
}
