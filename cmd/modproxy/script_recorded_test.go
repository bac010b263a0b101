package main_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
)

// answers fails unless a document contains a recorded one, except for some members. The document may have more members. A list of objects
// with names may have another order, but not more objects.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 2 && args[2] != "but" {
		ts.Fatalf("usage: answers DOCUMENT RECORDED [but MEMBER…]")
	}
	var documents [2]any
	for i := range documents {
		if err := json.Unmarshal([]byte(ts.ReadFile(args[i])), &documents[i]); err != nil {
			ts.Fatalf("%s: %v", args[i], err)
		}
	}
	recorded, _ := documents[1].(map[string]any)
	if len(recorded) == 0 {
		ts.Fatalf("%s is no object", args[1])
	}
	for _, name := range args[min(3, len(args)):] {
		if _, ok := recorded[name]; !ok {
			ts.Fatalf("%s has no %s", args[1], name)
		}
		delete(recorded, name)
	}
	if wrong := different("", documents[0], recorded); len(wrong) > 0 {
		ts.Fatalf("%s is not as it was recorded:\n%s", args[0], wrong)
	}
}

// different returns the differences between a value and the recorded one, one line for each.
func different(at string, got, recorded any) (wrong string) {
	if list, ok := recorded.([]any); ok {
		recorded = byName(list)
		list, _ = got.([]any)
		got = byName(list)
		if named, ok := got.(map[string]any); ok {
			for name := range named {
				if names, _ := recorded.(map[string]any); names[name] == nil {
					wrong += fmt.Sprintf("%s: %s was not recorded\n", at, name)
				}
			}
		}
	}
	members, ok := recorded.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(got, recorded) {
			wrong += fmt.Sprintf("%s: %v; recorded: %v\n", at, got, recorded)
		}
		return wrong
	}
	have, _ := got.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if value, ok := have[name]; ok {
			wrong += different(at+"/"+name, value, members[name])
		} else {
			wrong += fmt.Sprintf("%s: %s is missing\n", at, name)
		}
	}
	return wrong
}

// byName returns the objects in a list by their names, or the list if they have none.
func byName(list []any) any {
	named := map[string]any{}
	for _, value := range list {
		thing, ok := value.(map[string]any)
		if !ok {
			return list
		}
		name := fmt.Sprint(cmp.Or(thing["path"], thing["name"]))
		if len(thing) == 2 && thing["type"] != nil { // a resource
			name = fmt.Sprint(thing["type"], ".", name)
		}
		named[name] = thing
	}
	if len(named) != len(list) || len(list) == 0 {
		return list
	}
	return named
}
