package conformance_test

import (
	"errors"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

type (
	lookupFunc   = func(int64) (*record.Message, error)
	lookupIDFunc = func(string) (*record.Message, error)
)

// found changes what lookups by place find.
func found(f *faulty, how func(phyOffset int64, m *record.Message, err error) (*record.Message, error)) {
	f.lookup = func(phyOffset int64, next lookupFunc) (*record.Message, error) {
		m, err := next(phyOffset)
		return how(phyOffset, m, err)
	}
}

func init() {
	mutants = append(mutants,
		mutant{"lookup-001", "a looked up message has no flag", func(f *faulty) {
			found(f, func(_ int64, m *record.Message, err error) (*record.Message, error) {
				if err == nil {
					m.Flag = 0
				}
				return m, err
			})
		}},
		mutant{"lookup-002", "ids must be in capitals", func(f *faulty) {
			f.lookupID = func(id string, next lookupIDFunc) (*record.Message, error) {
				if id != strings.ToUpper(id) {
					return nil, store.ErrNotFound
				}
				return next(id)
			}
		}},
		mutant{"lookup-003", "ids of IPv6 are not found", func(f *faulty) {
			f.lookupID = func(id string, next lookupIDFunc) (*record.Message, error) {
				if len(id) == 56 {
					return nil, store.ErrNotFound
				}
				return next(id)
			}
		}},
		mutant{"lookup-004", "the log's last record is not found", func(f *faulty) {
			found(f, func(_ int64, m *record.Message, err error) (*record.Message, error) {
				if err == nil && m.PhyOffset+int64(m.Size) == f.m.MaxPhyOffset() && string(m.Body) == "9" {
					return nil, store.ErrNotFound
				}
				return m, err
			})
		}},
		mutant{"lookup-005", "at the log's end is its first record", func(f *faulty) {
			f.lookup = func(phyOffset int64, next lookupFunc) (*record.Message, error) {
				if phyOffset == f.m.MaxPhyOffset() {
					phyOffset = 0
				}
				return next(phyOffset)
			}
		}},
		mutant{"lookup-006", "a negative place is the first record's", func(f *faulty) {
			f.lookup = func(phyOffset int64, next lookupFunc) (*record.Message, error) { return next(max(phyOffset, 0)) }
		}},
		mutant{"lookup-007", "within a record is \"not found\"", func(f *faulty) {
			found(f, func(_ int64, m *record.Message, err error) (*record.Message, error) {
				if errors.Is(err, store.ErrNotARecord) {
					err = store.ErrNotFound
				}
				return m, err
			})
		}},
		mutant{"lookup-008", "a lookup in a blank finds the record behind it", func(f *faulty) {
			f.lookup = func(phyOffset int64, next lookupFunc) (*record.Message, error) {
				m, err := next(phyOffset)
				if seg := f.c.SegmentSize; seg > 0 && errors.Is(err, store.ErrNotARecord) && phyOffset%seg == seg-1 {
					return next(phyOffset + 1)
				}
				return m, err
			}
		}},
		mutant{"lookup-009", "place 0 is the last record's", func(f *faulty) {
			found(f, func(phyOffset int64, m *record.Message, err error) (*record.Message, error) {
				if err == nil && phyOffset == 0 && len(m.Body) < 1000 {
					m.PhyOffset++
				}
				return m, err
			})
		}},
		mutant{"lookup-010", "ids are cut to their length", func(f *faulty) {
			f.lookupID = func(id string, next lookupIDFunc) (*record.Message, error) {
				if len(id) > 32 && len(id) != 56 {
					id = id[:32]
				}
				return next(id)
			}
		}},
		mutant{"lookup-011", "an id's host is not compared", func(f *faulty) {
			f.lookupID = func(id string, next lookupIDFunc) (*record.Message, error) {
				_, phyOffset, err := record.ParseOffsetMessageID(id)
				if err != nil {
					return next(id)
				}
				return f.m.Lookup(phyOffset)
			}
		}},
		mutant{"lookup-012", "an id beyond the log is not a record", func(f *faulty) {
			f.lookupID = func(id string, next lookupIDFunc) (*record.Message, error) {
				m, err := next(id)
				if _, phyOffset, perr := record.ParseOffsetMessageID(id); perr == nil && phyOffset >= f.m.MaxPhyOffset() {
					err = store.ErrNotARecord
				}
				return m, err
			}
		}},
		mutant{"lookup-013", "lookups share what they found", func(f *faulty) {
			cache := map[int64]*record.Message{}
			f.lookup = func(phyOffset int64, next lookupFunc) (*record.Message, error) {
				if m := cache[phyOffset]; m != nil && phyOffset > 0 {
					return m, nil
				}
				m, err := next(phyOffset)
				if err == nil {
					cache[phyOffset] = m
				}
				return m, err
			}
		}},
		mutant{"lookup-014", "the 30th message of a queue has the place of the 29th", func(f *faulty) {
			f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
				if queueOffset == 29 {
					queueOffset--
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"lookup-015", "in an empty log is an empty message", func(f *faulty) {
			found(f, func(phyOffset int64, m *record.Message, err error) (*record.Message, error) {
				if phyOffset == 0 && f.m.MaxPhyOffset() == 0 {
					return &record.Message{}, nil
				}
				return m, err
			})
		}},
	)
}
