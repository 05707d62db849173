package ha

import "sync"

// strays are the slaves that were ahead of the log on the classic protocol, on which nothing but its end tells one log from another: once the master's log has grown past that end, such a slave looks like one that may follow,
// and its acknowledgements like some of bytes that it does not have. The original takes them.
type strays struct {
	mu struct {
		sync.Mutex
		off  bool
		seen map[stray]int64 // the log's end then
	}
}

type stray struct {
	host string
	end  int64 // of the slave's log, which stays as it is while nobody serves it
}

const maxStrays = 256

// note is for a slave that is ahead of a log that ends at end.
func (s *strays) note(host string, slaveEnd, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.off {
		return
	}
	if s.mu.seen == nil || len(s.mu.seen) >= maxStrays {
		s.mu.seen = map[stray]int64{}
	}
	s.mu.seen[stray{host, slaveEnd}] = end
}

// copied is Master.Copied.
func (s *strays) copied(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.off = on
	clear(s.mu.seen)
}

// known reports whether a slave is one of those, and from where on its log is not ours. A host whose slave begins below that has been set right.
func (s *strays) known(host string, slaveEnd int64) (from int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x, end := range s.mu.seen {
		if x.host == host && slaveEnd <= end {
			delete(s.mu.seen, x)
		}
	}
	from, ok = s.mu.seen[stray{host, slaveEnd}]
	return from, ok
}
