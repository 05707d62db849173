package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// storeIDFile holds the identity of a replicated store, 32 hex digits and a newline: made by the first master that is configured for the extended protocol, and taken over by its slaves, so that nobody follows the master of another store by mistake.
const storeIDFile = "mqstore.id"

type storeID [16]byte

func readStoreID(fsys mappedfile.FS, dir string) (id storeID, err error) {
	path := filepath.Join(dir, storeIDFile)
	b, err := fsys.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	} else if err != nil {
		return id, err
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) != hex.EncodedLen(len(id)) {
		return id, fmt.Errorf("%s has %d bytes, not 32 hex digits: delete it, and a master makes a new identity, a slave takes its master's", path, len(b))
	}
	if _, err := hex.Decode(id[:], b); err != nil {
		return id, fmt.Errorf("%s: %w: delete it, and a master makes a new identity, a slave takes its master's", path, err)
	}
	return id, nil
}

func writeStoreID(fsys mappedfile.FS, dir string, id storeID) error {
	return fsys.WriteFileDurable(filepath.Join(dir, storeIDFile), append(hex.AppendEncode(nil, id[:]), '\n'))
}

// identify is the store's identity in a role; zero for a slave that has met no master yet.
func (s *DefaultMessageStore) identify(role Role) (storeID, error) {
	id, err := readStoreID(s.o.FS, s.dir)
	if err != nil || id != (storeID{}) || role == Slave {
		return id, err
	}
	rand.Read(id[:]) // never fails
	return id, writeStoreID(s.o.FS, s.dir, id)
}

// adopt takes over the identity of the master that this slave follows, if it has none. From then on both sides of it go by that.
func (s *DefaultMessageStore) adopt(id storeID) {
	if id == (storeID{}) {
		return
	}
	if mine, err := readStoreID(s.o.FS, s.dir); err != nil || mine != (storeID{}) {
		return
	}
	if err := writeStoreID(s.o.FS, s.dir, id); err != nil {
		s.o.Logger.Warn("the master's identity could not be kept", "dir", s.dir, "err", err)
		return
	}
	s.known(id)
}

// known tells both sides of replication who this store is.
func (s *DefaultMessageStore) known(id storeID) {
	if m := s.replication.master; m != nil {
		m.SetStoreID(id)
	}
	if f := s.replication.slave; f != nil {
		f.SetStoreID(id)
	}
}
