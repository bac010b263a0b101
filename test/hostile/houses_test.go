//go:build linux

package hostile_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// house is a registry with modules and providers in some namespaces.
func house(namespaces []string) *txtar.Archive {
	all := &txtar.Archive{}
	names := "canary-" + strings.Join(namespaces, ", canary-")
	add := func(name, data string) { all.Files = append(all.Files, txtar.File{Name: name, Data: []byte(data)}) }
	add(".well-known/terraform.json", `{"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/","all.v1":"/files/"}`)
	add("files/all", names)
	for _, n := range namespaces {
		at, canary := n+"/net/aws", "canary-"+n
		add("modules/"+at+"/1.0.0", "/archives/"+n+".zip\n")
		add("archives/"+n+".zip/main.tf", "# "+canary+"\n")
		add("providers/"+n+"/toy/1.0.0", "")
		details := fmt.Sprintf(`"namespace":%q,"name":"net","provider":"aws","version":"1.0.0","description":%q,"published_at":"2020-01-01T00:00:00Z","root":{},"submodules":[],"providers":["seen","barred","aws"],"versions":["1.0.0"]`, n, canary)
		add("v1/modules/"+at+".json", fmt.Sprintf(`{"id":"%s/1.0.0",%s}`, at, details))
		add("v1/modules/"+at+"/1.0.0.json", fmt.Sprintf(`{"id":"%s/1.0.0",%s}`, at, details))
		add("v1/modules/"+at+"/downloads/summary.json", fmt.Sprintf(`{"data":{"type":"module-downloads-summary","id":%q,"attributes":{"month":1,"total":4,"week":1,"year":2}}}`, at))
		add("v2/modules/"+at, fmt.Sprintf(`{"data":{"type":"modules","id":"1","attributes":{"downloads":1,"full-name":%q,"name":"net","namespace":%q,"provider-name":"aws"}},`+
			`"included":[{"type":"module-versions","id":"2","attributes":{"version":"1.0.0","published-at":"2020-01-01T00:00:00Z","description":%q}}]}`, at, n, canary))
	}
	return all
}

// listing is a registry that lists its modules as registries do. next answers all other requests.
func listing(next http.Handler, namespaces []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		parts, query := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/v1/modules"), "/"), "/"), r.URL.Query()
		if !strings.HasPrefix(r.URL.Path, "/v1/modules") || len(parts) > 2 {
			next.ServeHTTP(w, r)
			return
		}
		namespace, search := parts[0], query.Get("q")
		if namespace == "" || namespace == "search" {
			namespace = query.Get("namespace")
		}
		limit, _ := strconv.Atoi(query.Get("limit"))
		offset, _ := strconv.Atoi(query.Get("offset"))
		var found []string
		for _, n := range namespaces {
			if (namespace == "" || namespace == n) && strings.Contains("net canary-"+n, search) && (len(parts) == 1 || parts[1] == "net") {
				found = append(found, fmt.Sprintf(`{"id":"%s/net/aws/1.0.0","owner":"","namespace":%[1]q,"name":"net","version":"1.0.0","provider":"aws","description":"canary-%[1]s","source":"","tag":"","published_at":"2020-01-01T00:00:00Z","downloads":1,"verified":false}`, n))
			}
		}
		meta := fmt.Sprintf(`"limit":%d,"current_offset":%d`, limit, offset)
		if len(found) > offset+limit {
			meta += fmt.Sprintf(`,"next_offset":%d,"next_url":"/v1/modules?offset=%[1]d"`, offset+limit)
		}
		found = found[min(offset, len(found)):min(offset+limit, len(found))]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"meta":{%s},"modules":[%s]}`, meta, strings.Join(found, ","))
	}
}
