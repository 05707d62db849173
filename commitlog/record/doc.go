// Package record is one message and its bytes in RocketMQ's commit log: encoding, decoding, limits, properties, tags codes, message ids, client batches and compressed bodies.
// It knows nothing of files; physical offsets are given to it.
//
// # The record
//
// All numbers are big-endian and signed. B and S are the sizes of the two hosts, 8 bytes for IPv4 and 20 for IPv6, as two bits of the system flag say.
//
//	at      bytes  field
//	 0        4    totalSize                    of the whole record, this field included
//	 4        4    magic                        v1 DA A3 20 A7, v2 DA A3 20 AB
//	 8        4    bodyCRC                      CRC-32 (IEEE) of the body as stored, without the highest bit; 0 of no body
//	12        4    queueId
//	16        4    flag                         the producer's
//	20        8    queueOffset                  patched under the append lock
//	28        8    physicalOffset               patched under the append lock: where byte 0 of this record lies in the log
//	36        4    sysFlag
//	40        8    bornTimestamp                ms
//	48        B    bornHost                     4 or 16 address bytes, 4-byte port
//	48+B      8    storeTimestamp               ms, patched under the append lock
//	56+B      S    storeHost                    4 or 16 address bytes, 4-byte port
//	56+B+S    4    reconsumeTimes
//	60+B+S    8    preparedTransactionOffset
//	68+B+S    4    bodyLength
//	72+B+S    n    body                         compressed if sysFlag says so
//	 …       1|2   topicLength                  2 bytes in v2; signed, so at most 127 in v1
//	 …        n    topic                        UTF-8
//	 …        2    propertiesLength             signed, so at most 32767
//	 …        n    properties                   name 01 value, 02 between two (RocketMQ 4) or behind each (RocketMQ 5)
//
// A v1 record with two IPv4 hosts has 91 bytes beside topic, body and properties. The rest of a segment file behind its last record is a blank:
//
//	0        4    totalSize                    bytes from here to the end of the file, 8 or more
//	4        4    magic                        CB D4 31 94
//	8        …    whatever was in the file
//
// # Contract
//
// A message that Decode read is encoded by AppendRecord to the same bytes: Properties keeps them as their writer made them, in either style. Views (Body, Properties, keys) share memory with the bytes that were parsed, live as long as those, and cannot be appended into them.
//
// Bytes are taken for hostile: every length is compared with the bytes at hand before it is used, nothing is allocated by a length that was read, and each refusal is a sentinel error that says the value and what it should be.
// AppendRecord with room in dst, Patch, and Parse of topics met before do not allocate.
//
// A Parser serves one goroutine. Everything else here has no state and is safe for concurrent use, as long as nobody writes to the same bytes or message.
//
// # Differences from RocketMQ 4.9.8
//
//   - A topic of at most 127 characters but more than 127 bytes is refused (ErrTopicTooLong), or written as version 2 where Limits.AllowV2 allows it: the original writes a record that nobody can read. An empty topic is refused, and no record when read: it could be in no queue.
//   - Records of version 2 (RocketMQ 5) are read; to the original they are damage.
//   - The stored physical offset is compared with where the record lies, so that an old record in a reused file is not taken for a new one. The original's dispatch does not look.
//   - A property CRC (RocketMQ 5, a CRC of the whole record) is verified where there is one, and made right whenever a record that has one is written; one is only added if Limits.PropertyCRC asks for it. RocketMQ 5 verifies it only if configured to.
//   - The CRC of an empty body is checked too: it must be 0, as every version writes it. The original looks at bodies with at least one byte.
//   - The properties of a batch's item and of its batch together are held to 32767 bytes: the original does not look and writes a wrong length. A batch without items is refused.
//   - System-flag bits and host addresses must agree (ErrHost): the original writes what the caller says, and the record cannot be read. A host that is not set is stored as address 0.0.0.0.
//   - A DELAY property that is no decimal number of 32 bits counts as level 0, so that one client cannot hold up the dispatch of all.
//   - An offset message id must have 32 or 56 hexadecimal digits and no negative offset; the original takes any length but 32 for IPv6.
//   - A delay table with a negative delay is refused.
//   - Decompressed bodies are bounded; a body that claims a codec nobody knows is an error.
//   - Tags that are not valid UTF-8 hash as one U+FFFD for each byte that fits nowhere; the original may take several such bytes for one character. No Java producer sends them.
//   - Limits of bytes are counted in bytes; the original counts some of them in UTF-16 units.
package record
