package record

import "bytes"

// Known are the values of the properties that a store looks for in every record, as [Properties.View] finds them: views, nil of a property that is not there.
type Known struct {
	Tags, Keys, UniqKey, MultiDispatch []byte
}

var findMultiDispatch = []byte(PropertyMultiDispatch + "\x01")

// Known finds them in one pass, which is quicker than to look for one after the other.
func (p Properties) Known() (k Known) {
	p.known(&k)
	return k
}

// known is Known in place, which saves copying as much as there may be properties.
func (p Properties) known(k *Known) {
	*k = Known{}
	for len(p) > 0 {
		entry := p
		if n := bytes.IndexByte(p, entryEnd); n >= 0 {
			entry, p = p[:n:n], p[n+1:]
		} else {
			entry, p = p[:len(p):len(p)], nil
		}
		if len(entry) <= len(PropertyTags)+1 { // the shortest name, and a value
			continue
		}
		var name []byte
		var value *[]byte
		switch entry[0] {
		case 'T':
			name, value = findTags, &k.Tags
		case 'K':
			name, value = findKeys, &k.Keys
		case 'U':
			name, value = findUniqKey, &k.UniqKey
		case 'I':
			name, value = findMultiDispatch, &k.MultiDispatch
		default:
			continue
		}
		if len(entry) > len(name) && string(entry[:len(name)]) == string(name) {
			*value = entry[len(name):]
		}
	}
}

// ParseKnown is Parse that finds the known properties on the way. k is filled if m is; of a blank it is zero.
func (p *Parser) ParseKnown(b []byte, phyOffset int64, m *Meta, k *Known) error {
	return p.parse(b, phyOffset, m, k)
}
