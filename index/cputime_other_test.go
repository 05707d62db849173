//go:build !unix

package index_test

import "time"

func processorTime() time.Duration { return 0 }
