//go:build !unix

package repair

import "time"

func processorTime() time.Duration { return 0 }
