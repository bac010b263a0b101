package fair

// Known returns how many owners t knows.
func (t *Turns) Known() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.owners)
}
