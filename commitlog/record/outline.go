package record

// Outline is the little of a record that tells whether it is whole and where the next one begins.
type Outline struct {
	Magic          uint32 // MagicBlank: Size is what the blank says of the rest of the segment, and every other field zero
	Size           int
	StoreTimestamp int64 // ms
	TopicLen       int   // bytes
	PropertiesLen  int   // bytes, the last ones of the record
}

// IsBlank reports whether this is the end-of-file blank of a segment and not a message.
func (o *Outline) IsBlank() bool { return o.Magic == MagicBlank }

// Check is Parser.Parse for who needs no more of the record than its outline: the same checks, the same errors, o filled or unchanged. Safe for concurrent use.
func Check(b []byte, phyOffset int64, verifyCRC bool, o *Outline) error {
	var l layout
	if err := locate(b, phyOffset, &l); err != nil {
		return err
	}
	if l.magic == MagicBlank {
		*o = Outline{Magic: MagicBlank, Size: l.size}
		return nil
	}
	if verifyCRC {
		if err := checkCRCs(b, &l); err != nil {
			return err
		}
	}
	*o = Outline{Magic: l.magic, Size: l.size, StoreTimestamp: get64(b[l.afterBorn+posStoreTimestamp:]), TopicLen: l.topicLen, PropertiesLen: l.size - l.properties}
	return nil
}
