//go:build !unix

package store_test

import "time"

func processorTime() time.Duration { return 0 }
