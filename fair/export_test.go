package fair

// Known returns the number of owners in t.
func (t *Turns) Known() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.owners)
}
