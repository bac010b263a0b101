package modproxy

const overhead int64 = 1 << 10 // bytes of an answer, and of each of its parts, beside their texts

// Size returns the approximate memory use of d in bytes.
func (d *Details) Size() int64 {
	n := overhead + length(d.Owner, d.Logo, d.Description, d.Source, d.Tag, d.Alias, d.Tier) + length(d.Systems...)
	for _, parts := range [][]Part{{d.Root}, d.Submodules, d.Examples} {
		for _, p := range parts {
			n += overhead + length(p.Path, p.Name, p.Readme)
			for _, in := range p.Inputs {
				n += length(in.Name, in.Type, in.Description, in.Default)
			}
			for _, out := range p.Outputs {
				n += length(out.Name, out.Description)
			}
			for _, call := range p.Calls {
				n += length(call.Name, call.Source, call.Version)
			}
			for _, need := range p.Providers {
				n += length(need.Name, need.Namespace, need.Source, need.Version)
			}
			for _, r := range p.Resources {
				n += length(r.Name, r.Type)
			}
		}
	}
	for _, doc := range d.Docs {
		n += length(doc.ID, doc.Title, doc.Path, doc.Slug, doc.Category, doc.Subcategory, doc.Language, doc.Description, doc.Link)
	}
	return n
}

// Size returns the approximate memory use of h in bytes.
func (h *History) Size() int64 {
	n := overhead + length(h.Owner, h.Logo, h.Source, h.Alias, h.Tier, h.Description, h.Warning)
	for _, v := range h.Versions {
		n += 32 + length(v.Version, v.Description, v.Tag, v.Source)
	}
	return n
}

// length returns the number of bytes of texts, plus 16 bytes for each string header.
func length(texts ...string) int64 {
	n := 16 * int64(len(texts))
	for _, text := range texts {
		n += int64(len(text))
	}
	return n
}
