package slots

// Known returns the number of owners in q.
func (q *Queue) Known() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.owners)
}
