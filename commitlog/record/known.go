package record

import "bytes"

// Known are the values of the properties that a store looks for in every record, as [Properties.View] finds them: views, nil of a property that is not there.
type Known struct {
	Tags, Keys, UniqKey, MultiDispatch []byte
}

// Known finds them in one pass, which is quicker than to look for one after the other.
func (p Properties) Known() (k Known) {
	p.known(&k)
	return k
}

// known is Known in place, which saves copying as much as there may be properties.
func (p Properties) known(k *Known) {
	*k = Known{}
	for len(p) > len(tagsHead) { // the shortest name
		end := bytes.IndexByte(p, entryEnd)
		if end < 0 {
			end = len(p)
		}
		if end > len(tagsHead) {
			switch e := p[:end:end]; e[0] {
			case 'T':
				if string(e[:len(tagsHead)]) == tagsHead {
					k.Tags = e[len(tagsHead):]
				}
			case 'K':
				if string(e[:len(keysHead)]) == keysHead {
					k.Keys = e[len(keysHead):]
				}
			case 'U':
				if end > len(uniqKeyHead) && string(e[:len(uniqKeyHead)]) == uniqKeyHead {
					k.UniqKey = e[len(uniqKeyHead):]
				}
			case 'I':
				if end > len(multiDispatchHead) && string(e[:len(multiDispatchHead)]) == multiDispatchHead {
					k.MultiDispatch = e[len(multiDispatchHead):]
				}
			}
		}
		p = p[min(end+1, len(p)):]
	}
}

// ParseKnown is Parse that finds the known properties on the way. k is filled if m is; of a blank it is zero.
func (p *Parser) ParseKnown(b []byte, phyOffset int64, m *Meta, k *Known) error {
	return p.parse(b, phyOffset, m, k)
}
