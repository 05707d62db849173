package indexfile

// SetOf is a set of open files, the oldest first.
func SetOf(files ...*File) *Set { return &Set{files: files} }
