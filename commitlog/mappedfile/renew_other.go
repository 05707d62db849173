//go:build !linux

package mappedfile

import "errors"

// device is a file as its file system has it on the device.
type device struct{}

func (m *osMapping) openDevice() (device, error)     { return device{}, errors.ErrUnsupported }
func (device) read([]byte, int64) (n int, err error) { return 0, errors.ErrUnsupported }
func (device) close()                                {}
