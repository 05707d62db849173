package conformance_test

import (
	"bytes"
	"context"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() {
	mutants = append(mutants,
		mutant{"put-001", "the seventh message of a queue gets the offset of the sixth", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if r.QueueOffset == 6 && string(m.Body) == "in order" {
					r.QueueOffset--
				}
			})
		}},
		mutant{"put-002", "topics of 127 bytes are refused", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return len(m.Topic) == 127 })
		}},
		mutant{"put-003", "too many bytes of properties are MESSAGE_ILLEGAL", func(f *faulty) { swap(f, store.ErrPropertiesTooLarge, store.ErrMessageIllegal, nil) }},
		mutant{"put-003", "properties of 32,767 bytes are refused", func(f *faulty) {
			refuse(f, store.ErrPropertiesTooLarge, func(m *record.Message) bool { return len(m.Properties) == 32767 })
		}},
		mutant{"put-004", "too many characters of properties are PROPERTIES_SIZE_EXCEEDED", func(f *faulty) {
			swap(f, store.ErrMessageIllegal, store.ErrPropertiesTooLarge, func(m *record.Message) bool { return m != nil && len(m.Properties) > 32767 })
		}},
		mutant{"put-005", "bodies of the maximum size are refused", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return len(m.Body) == f.c.MaxMessageSize && len(m.Body) > 0 })
		}},
		mutant{"put-005", "bodies of a byte too many are accepted", func(f *faulty) {
			accept(f, func(m *record.Message) bool {
				return m != nil && f.c.MaxMessageSize > 0 && len(m.Body) == f.c.MaxMessageSize+1
			})
		}},
		mutant{"put-006", "the default maximum is 4 MiB less a byte", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return f.c.MaxMessageSize == 0 && len(m.Body) >= 4<<20 })
		}},
		mutant{"put-007", "the limit of the body is that of the whole record", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool {
				return f.c.MaxMessageSize > 0 && len(m.Body)+len(m.Properties)+len(m.Topic) > f.c.MaxMessageSize+32<<10
			})
		}},
		mutant{"put-008", "a record that fits into no segment is answered PUT_OK and lost", func(f *faulty) {
			accept(f, func(m *record.Message) bool {
				return m != nil && f.c.SegmentSize > 0 && len(m.Properties) == 0 && int64(len(m.Body)+len(m.Topic)+91+8) > f.c.SegmentSize
			})
		}},
		mutant{"put-009", "a record for which there is just room is said to lie in the next segment", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if seg := f.c.SegmentSize; seg > 0 && r.Size == 300 && seg-r.PhyOffset%seg == 308 {
					r.PhyOffset += 308
				}
			})
		}},
		mutant{"put-010", "a record for which a byte is missing is said to lie at the end of the segment", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if f.c.SegmentSize > 0 && r.Size == 300 && r.PhyOffset%f.c.SegmentSize == 0 {
					r.PhyOffset -= 307
				}
			})
		}},
		mutant{"put-011", "records are said to cross the end of a segment", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if seg := f.c.SegmentSize; seg > 0 && r.PhyOffset > 0 && r.PhyOffset%seg == 0 && r.QueueOffset > 30 && r.Size != 300 && int64(r.Size) < seg-8 {
					r.PhyOffset--
				}
			})
		}},
		mutant{"put-012", "an empty topic is accepted", func(f *faulty) {
			accept(f, func(m *record.Message) bool { return m != nil && m.Topic == "" && len(m.Body) == 1 })
		}},
		mutant{"put-013", "a topic may lead out of the store's directory", func(f *faulty) {
			accept(f, func(m *record.Message) bool { return m != nil && strings.Contains(m.Topic, "../") })
		}},
		mutant{"put-014", "a topic's characters are counted, not its bytes", func(f *faulty) {
			accept(f, func(m *record.Message) bool {
				return m != nil && len(m.Topic) > 127 && utf8.RuneCountInString(m.Topic) <= 127
			})
		}},
		mutant{"put-015", "topics must be ASCII", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return utf8.RuneCountInString(m.Topic) < len(m.Topic) })
		}},
		mutant{"put-016", "a negative queue id is accepted", func(f *faulty) {
			accept(f, func(m *record.Message) bool { return m != nil && m.QueueID == math.MinInt32 })
		}},
		mutant{"put-017", "no message makes the store panic", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				_ = m.Topic
				return next(ctx, m)
			}
		}},
		mutant{"put-018", "properties may hold zero bytes", func(f *faulty) {
			accept(f, func(m *record.Message) bool { return m != nil && bytes.Contains(m.Properties, []byte{0, 'w'}) })
		}},
		mutant{"put-019", "topics of 255 bytes are refused", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return len(m.Topic) == 255 })
		}},
		mutant{"put-020", "where version 2 is allowed everything is version 2", func(f *faulty) {
			change(f, func(m *record.Message) {
				if f.c.AllowV2 {
					m.Version = record.V2
				}
			})
		}},
		mutant{"put-021", "version 2 is written on request", func(f *faulty) { accept(f, func(m *record.Message) bool { return m != nil && m.Version == record.V2 }) }},
		mutant{"put-022", "a slave takes puts", func(f *faulty) {
			accept(f, func(m *record.Message) bool { return m != nil && f.c.Role == store.Slave })
		}},
		mutant{"put-023", "a context that is done does not count", func(f *faulty) {
			f.put = func(_ context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				return next(context.Background(), m)
			}
		}},
		mutant{"put-024", "a refusal uses a queue offset", func(f *faulty) {
			failed(f, func(ctx context.Context, m *record.Message, next putFunc) {
				if len(m.Properties) > 32767 && m.QueueID >= 0 && f.m.MaxOffset(m.Topic, m.QueueID) > 0 {
					_, _ = next(ctx, small(m.Topic, m.QueueID))
				}
			})
		}},
		mutant{"put-025", "a refusal leaves a record in the log", func(f *faulty) {
			failed(f, func(ctx context.Context, m *record.Message, next putFunc) {
				if m.Topic == "" {
					_, _ = next(ctx, small("elsewhere", 0))
				}
			})
		}},
		mutant{"put-026", "the system flag of a refused message is changed", func(f *faulty) {
			failed(f, func(_ context.Context, m *record.Message, _ putFunc) { m.SysFlag |= record.FlagBornHostV6 })
		}},
		mutant{"put-027", "the message's place is not set", func(f *faulty) { answer(f, func(m *record.Message, _ *store.PutResult) { m.PhyOffset = -1 }) }},
		mutant{"put-028", "the size leaves out the record's first field", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if string(m.Properties) == "k\x01v" {
					r.Size -= 4
				}
			})
		}},
		mutant{"put-029", "a few bytes are left free between two records", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if string(m.Body) == "xxx" {
					r.PhyOffset += 4
				}
			})
		}},
		mutant{"put-030", "reconsume times are not stored", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.ReconsumeTimes == 7 {
					m.ReconsumeTimes = 0
				}
			})
		}},
		mutant{"put-031", "a negative born time becomes 0", func(f *faulty) { change(f, func(m *record.Message) { m.BornTimestamp = max(m.BornTimestamp, 0) }) }},
		mutant{"put-032", "an empty body is refused", func(f *faulty) {
			refuse(f, store.ErrMessageIllegal, func(m *record.Message) bool { return m.Body == nil })
		}},
		mutant{"put-033", "a body ends at its first blank", func(f *faulty) {
			change(f, func(m *record.Message) {
				if i := bytes.Index(m.Body, []byte{0xCB, 0xD4, 0x31, 0x94}); i >= 0 {
					m.Body = m.Body[:i]
				}
			})
		}},
		mutant{"put-034", "the port of an IPv6 host is lost", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.BornHost.Addr.Is6() {
					m.BornHost.Port = 0
				}
			})
		}},
		mutant{"put-035", "ids have the born host", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if m.StoreHost.Addr.Is6() {
					r.StoreHost = m.BornHost
				}
			})
		}},
		mutant{"put-036", "the message's system flag stays as it was", func(f *faulty) {
			answer(f, func(m *record.Message, _ *store.PutResult) { m.SysFlag &^= record.FlagBornHostV6 })
		}},
		mutant{"put-037", "bodies are decompressed", func(f *faulty) {
			change(f, func(m *record.Message) {
				if b, err := m.DecodedBody(0); err == nil && m.SysFlag.Compressed() {
					m.Body, m.SysFlag = b, m.SysFlag.WithCompression(record.CompressionNone)
				}
			})
		}},
		mutant{"put-038", "properties are tidied up", func(f *faulty) {
			change(f, func(m *record.Message) { m.Properties = bytes.TrimRight(m.Properties, "\x02") })
		}},
		mutant{"put-039", "all queues of a topic count together", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if m.QueueID == 2 {
					r.QueueOffset += f.m.MaxOffset(m.Topic, 1)
				}
			})
		}},
		mutant{"put-040", "topics are told apart without their case", func(f *faulty) {
			change(f, func(m *record.Message) {
				m.Topic = strings.TrimSuffix(m.Topic, "A") + map[bool]string{true: "a"}[strings.HasSuffix(m.Topic, "A")]
			})
		}},
		mutant{"put-041", "store times are whole seconds", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if string(m.Body) == "clock" {
					r.StoreTimestamp = r.StoreTimestamp / 1000 * 1000
				}
			})
		}},
		mutant{"put-042", "the producer's store time is kept", func(f *faulty) {
			kept := map[int64]int64{}
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				at := int64(0)
				if m != nil {
					at = m.StoreTimestamp
				}
				r, err := next(ctx, m)
				if err == nil && at == 1 {
					kept[r.PhyOffset] = at
				}
				return r, err
			}
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err != nil {
					return g, err
				}
				for i, v := range g.Records {
					if at, ok := kept[v.PhyOffset]; ok {
						b := bytes.Clone(v.Bytes)
						record.Patch(b, g.QueueOffsets[i], v.PhyOffset, at)
						g.Records[i] = store.NewView(b, v.PhyOffset, nil)
					}
				}
				return g, err
			}
		}},
		mutant{"put-043", "a message that was stored is not stored again", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				if m != nil && m.Size > 0 && m.PhyOffset > 2 {
					return store.PutResult{PhyOffset: m.PhyOffset, QueueOffset: m.QueueOffset, Size: m.Size, StoreTimestamp: m.StoreTimestamp, Messages: 1, StoreHost: m.StoreHost}, nil
				}
				return next(ctx, m)
			}
		}},
		mutant{"put-044", "the caller's bytes are kept", func(f *faulty) {
			// Each get gives the body that the message put last has now.
			var last *record.Message
			answer(f, func(m *record.Message, _ *store.PutResult) { last = m })
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && len(g.Records) == 1 && last != nil && last.Topic == r.Topic && len(last.Body) == 8 {
					m := *last
					if b, err := record.AppendRecord(nil, &m, record.Limits{}); err == nil {
						g.Records[0] = store.NewView(b, g.Records[0].PhyOffset, nil)
					}
				}
				return g, err
			}
		}},
		mutant{"put-045", "a master without slaves answers PUT_OK", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if len(m.Properties) == 0 {
					r.Status = store.PutOK
				}
			})
		}},
		mutant{"put-046", "WAIT=false waits for slaves", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if _, ok := m.Properties.Get(record.PropertyWait); ok && f.c.Role == store.SyncMaster {
					r.Status = store.SlaveNotAvailable
				}
			})
		}},
		mutant{"put-047", "puts are answered before they are flushed", func(f *faulty) {
			f.stats = func(next func() store.Stats) store.Stats {
				st := next()
				if f.c.SyncFlush {
					st.FlushedPhyOffset--
				}
				return st
			}
		}},
		mutant{"put-048", "every second put waits for a flush that does not come", func(f *faulty) {
			n := 0
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if n++; f.c.SyncFlush && n%2 == 0 {
					r.Status = store.FlushDiskTimeout
				}
			})
		}},
		mutant{"put-049", "Flush says how far the log was flushed before", func(f *faulty) {
			f.flush = func(next func() (int64, error)) (int64, error) {
				end, err := next()
				return end - 1, err
			}
		}},
		mutant{"put-050", "refusals are not counted", func(f *faulty) {
			f.stats = func(next func() store.Stats) store.Stats {
				st := next()
				st.PutFailures = 0
				return st
			}
		}},
	)
}
