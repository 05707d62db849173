package store

import "context"

// Query answers ErrNoIndex: this version has no index.
func (s *reader) Query(ctx context.Context, r QueryRequest) (*QueryResult, error) {
	return nil, ErrNoIndex
}
