package mappedfile

// layStep is what is laid at a time, and where pieces begin and end: the kernel makes folios of it that are large, and yet are not made of memory that a virtual machine gave back. See the package's figures.
const layStep = 256 << 10

var zeros [layStep]byte // never stored to: the kernel keeps one page for all of it

// lay makes [pos, end) of f, whose blocks are there, ready for the writer's stores. If the sequence is Lay, the pages that the writer has not come to yet, up to the end of the piece that end lies in, are first written
// as zeros by a call: then they are in the page cache, dirty and with their blocks known, and a store costs a short fault instead of a long one.
//
// It is the writer that lays, and only behind everything that it was ever given: so no zero is written over a byte that somebody stored, and nobody has to agree with anybody.
// A piece that cannot be written is no failure: the stores into the rest of the file fault, as they would have.
func (s *Sequence) lay(f *file, pos, end int64) {
	limit := f.allocated.Load()
	if !s.o.Lay {
		f.ready = limit
		return
	}
	at := max(f.ready, (pos+pageSize-1)&^(pageSize-1))
	to := min(limit, (end+layStep-1)&^(layStep-1))
	for at < to {
		n := min(layStep, to-at)
		if f.m.Write(at, zeros[:n]) != nil {
			f.ready = limit
			return
		}
		at += n
	}
	f.ready = to
}
