package record

import "strconv"

// SysFlag is the system flag of a message: how its body and hosts are stored, and its part in a transaction. spec/commitlog-format.md 1.4.
type SysFlag int32

const (
	FlagCompressed  SysFlag = 0x1  // the body is compressed, see Compression
	FlagMultiTags   SysFlag = 0x2  // the producer gave several tags; the tags code does not care
	FlagBornHostV6  SysFlag = 0x10 // the born host is stored in 20 bytes
	FlagStoreHostV6 SysFlag = 0x20 // the store host is stored in 20 bytes
	FlagNeedUnwrap  SysFlag = 0x40 // a client's mark
	FlagInnerBatch  SysFlag = 0x80 // a batch kept as one record (RocketMQ 5)

	flagTransaction      SysFlag = 0xC
	flagCompressionType  SysFlag = 0x700
	flagCompressionShift         = 8
)

// Transaction says what a message is in a transaction.
type Transaction uint8

const (
	TransactionNone     Transaction = 0
	TransactionPrepared Transaction = 0x4 // stored, but in no consume queue
	TransactionCommit   Transaction = 0x8
	TransactionRollback Transaction = 0xC // stored, but in no consume queue and not indexed
)

func (t Transaction) String() string {
	switch t {
	case TransactionNone:
		return "none"
	case TransactionPrepared:
		return "prepared"
	case TransactionCommit:
		return "commit"
	case TransactionRollback:
		return "rollback"
	}
	return "transaction(" + strconv.Itoa(int(t)) + ")"
}

// HasUnit reports whether such a message takes a queue offset and a unit of its consume queue.
func (t Transaction) HasUnit() bool { return t == TransactionNone || t == TransactionCommit }

// Transaction is the flag's transaction type.
func (f SysFlag) Transaction() Transaction { return Transaction(f & flagTransaction) }

// Compressed reports whether the body is compressed.
func (f SysFlag) Compressed() bool { return f&FlagCompressed != 0 }

// Compression is how the body is compressed: CompressionNone unless Compressed. A flag without a type, as older producers write it, means zlib. Types that nobody has defined yet are returned as they are.
func (f SysFlag) Compression() Compression {
	if !f.Compressed() {
		return CompressionNone
	}
	if t := f & flagCompressionType >> flagCompressionShift; t != 0 {
		return Compression(t)
	}
	return CompressionZlib
}

// WithCompression is f with the compressed bit and type of c; with CompressionNone both are cleared.
func (f SysFlag) WithCompression(c Compression) SysFlag {
	f &^= FlagCompressed | flagCompressionType
	if c == CompressionNone {
		return f
	}
	return f | FlagCompressed | SysFlag(c)<<flagCompressionShift&flagCompressionType
}

// WithTransaction is f with the transaction type t.
func (f SysFlag) WithTransaction(t Transaction) SysFlag {
	return f&^flagTransaction | SysFlag(t)&flagTransaction
}

func (f SysFlag) bornHostSize() int {
	if f&FlagBornHostV6 != 0 {
		return hostSizeV6
	}
	return hostSizeV4
}

func (f SysFlag) storeHostSize() int {
	if f&FlagStoreHostV6 != 0 {
		return hostSizeV6
	}
	return hostSizeV4
}
