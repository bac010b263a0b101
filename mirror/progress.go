package mirror

import (
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// progress counts what a run has done and what is left. It is safe for concurrent use.
type progress struct {
	began time.Time

	mu       sync.Mutex // guards the fields below
	counts   Progress
	awaited  map[modproxy.Address]bool // folded modules and providers of starts whose versions were not requested yet
	listed   map[modproxy.Address]bool // folded modules and providers whose versions a registry has returned
	versions map[modproxy.Ref]bool     // folded versions that clients choose, with whether each is done
}

func newProgress() *progress {
	return &progress{
		began: time.Now(), awaited: map[modproxy.Address]bool{}, listed: map[modproxy.Address]bool{}, versions: map[modproxy.Ref]bool{},
	}
}

func (p *progress) snapshot() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	counts.Left += len(p.awaited)
	counts.Seconds = time.Since(p.began).Seconds()
	return counts
}

// await adds a module or provider whose versions will be requested.
func (p *progress) await(m modproxy.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited[m.Folded()] = true
}

// requested counts a module or provider whose versions were requested; ok reports whether its registry has returned them.
func (p *progress) requested(m modproxy.Address, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m = m.Folded()
	delete(p.awaited, m)
	if ok && !p.listed[m] {
		p.listed[m] = true
		p.counts.Requested++
	}
}

// beginTask and endTask count the tasks that are left.
func (p *progress) beginTask() { p.addLeft(1) }
func (p *progress) endTask()   { p.addLeft(-1) }

func (p *progress) addLeft(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Left += n
}

// beginVersion adds a version that a client chooses.
func (p *progress) beginVersion(v modproxy.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.versions[v.Folded()]; !ok {
		p.versions[v.Folded()] = false
		p.counts.Left++
	}
}

// endVersion marks a version that a client chooses as done. It does nothing for other versions.
func (p *progress) endVersion(v modproxy.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done, ok := p.versions[v.Folded()]; ok && !done {
		p.versions[v.Folded()] = true
		p.counts.Left--
	}
}

// addPackage counts a package that is cached now.
func (p *progress) addPackage(one Package) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.Fetched {
		p.counts.Fetched++
		p.counts.Bytes += one.Size
	} else {
		p.counts.Kept++
	}
}

// addNote counts a note.
func (p *progress) addNote(bypass bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bypass {
		p.counts.Bypasses++
	} else {
		p.counts.Problems++
	}
}
