package recovery

import "errors"

func open(o Options) (*Opened, error) { return nil, errors.New("recovery: not built yet") }
