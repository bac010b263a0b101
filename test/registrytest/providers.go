package registrytest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
)

// addProvider takes providers/NAMESPACE/TYPE/VERSION/FILE, one file of the package,
// which is for the platform that the test runs on.
func (c *content) addProvider(name string, f file) error {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) != 4 {
		return fmt.Errorf("want providers/NAMESPACE/TYPE/VERSION/FILE")
	}
	address, version := path.Join(parts[:2]...), parts[2]
	if c.providers[address] == nil {
		c.providers[address] = map[string]bool{}
	}
	c.providers[address][version] = true
	f.name = parts[3]
	archive := providerFile(address, version) + "_" + platform + ".zip"
	c.archives[archive] = append(c.archives[archive], f)
	return nil
}

const platform = runtime.GOOS + "_" + runtime.GOARCH

// providerFile is what the names of a version's files begin with, below /archives/.
func providerFile(address, version string) string {
	return path.Join("providers", address, "terraform-provider-"+path.Base(address)+"_"+version)
}

// provider answers the providers.v1 protocol; the URLs in its answers are relative.
func (s *site) provider(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/providers/"), "/")
	address := path.Join(parts[:min(2, len(parts))]...)
	versions := s.content.providers[address]
	target := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}
	switch {
	case len(parts) == 3 && parts[2] == "versions" && len(versions) > 0:
		var list []any
		for _, version := range slices.Sorted(maps.Keys(versions)) {
			list = append(list, map[string]any{
				"version": version, "protocols": []string{"5.0"}, "platforms": []any{target},
			})
		}
		json.NewEncoder(w).Encode(map[string]any{"versions": list})
	case len(parts) == 6 && parts[3] == "download" && path.Join(parts[4:]...) == path.Join(runtime.GOOS, runtime.GOARCH) && versions[parts[2]]:
		file := providerFile(address, parts[2])
		up := "../../../../../../../archives/"
		json.NewEncoder(w).Encode(map[string]any{
			"protocols": []string{"5.0"}, "os": runtime.GOOS, "arch": runtime.GOARCH,
			"filename":              path.Base(file) + "_" + platform + ".zip",
			"download_url":          up + file + "_" + platform + ".zip",
			"shasums_url":           "/archives/" + file + "_SHA256SUMS",
			"shasums_signature_url": "/archives/" + file + "_SHA256SUMS.sig",
			"shasum":                fmt.Sprintf("%x", sha256.Sum256(s.archives[file+"_"+platform+".zip"])),
			"signing_keys":          map[string]any{"gpg_public_keys": []any{map[string]string{"ascii_armor": signer().armored}}},
		})
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errors":["Not Found"]}`)
	}
}

// sums is the list of checksums of a provider's version, or its signature; name is
// below /archives/.
func (s *site) sums(name string) (body []byte, ok bool) {
	file, signature := strings.CutSuffix(name, ".sig")
	file, ok = strings.CutSuffix(file, "_SHA256SUMS")
	zip, known := s.archives[file+"_"+platform+".zip"]
	if !ok || !known {
		return nil, false
	}
	body = fmt.Appendf(nil, "%x  %s_%s.zip\n", sha256.Sum256(zip), path.Base(file), platform)
	if signature {
		signed, err := signer().sign(body)
		return signed, err == nil
	}
	return body, true
}
