package metasync

import "strconv"

// Kind is one of the four tables, in the order in which a slave asks for them.
type Kind uint8

const (
	KindTopics Kind = iota
	KindConsumerOffsets
	KindDelayOffsets
	KindSubscriptionGroups

	kinds = 4
)

var kindInfo = [kinds]struct {
	name, file string
	code       int32
}{
	KindTopics:             {"topics", "topics.json", 21},
	KindConsumerOffsets:    {"consumer offsets", "consumerOffset.json", 43},
	KindDelayOffsets:       {"delay offsets", "delayOffset.json", 45},
	KindSubscriptionGroups: {"subscription groups", "subscriptionGroup.json", 201},
}

func (k Kind) String() string {
	if k >= kinds {
		return "kind " + strconv.Itoa(int(k))
	}
	return kindInfo[k].name
}

// Code is the request code that asks a broker for this table.
func (k Kind) Code() int32 { return kindInfo[k].code }

// File is the table's file name in a store's config directory.
func (k Kind) File() string { return kindInfo[k].file }
