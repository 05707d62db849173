package mappedfile

// DataEnd is where m surely holds only zeros from, at or behind from and without reading them: an allocated file that was never written is not worth a gigabyte of page cache.
// It is the file's length where nobody can tell.
func DataEnd(m Mapping, from int64) int64 {
	if d, ok := m.(interface{ dataEnd(from int64) int64 }); ok {
		return d.dataEnd(from)
	}
	return int64(len(m.Bytes()))
}
