package remoting

import (
	"errors"
	"fmt"
)

// Sentinels. Errors of this package say what was tried and on what.
var (
	ErrMalformed = errors.New("remoting: malformed frame")
	ErrTooLarge  = errors.New("remoting: frame too large")
	ErrClosed    = errors.New("remoting: closed")
)

// Answer codes that are not of one request alone.
const (
	Success          = 0
	SystemError      = 1 // anything went wrong; the remark says what
	CodeNotSupported = 3 // nobody handles this request code
)

// Version409 is what a RocketMQ 4.9.8 broker sends as its version: the place of that version in its list.
// A name server takes the registration body of spec/ha-protocol.md 6.19 from version 37 on.
const Version409 = 409

const (
	flagResponse = 1 << 0
	flagOneWay   = 1 << 1
)

// Serialization is the form of a frame's header.
type Serialization uint8

const (
	JSON   Serialization = 0
	Binary Serialization = 1
)

// Language names the sender's implementation: by name in a JSON header, as a number in a binary one.
type Language uint8

const (
	Java Language = iota
	CPP
	DotNet
	Python
	Delphi
	Erlang
	Ruby
	Other
	HTTP
	Go
	PHP
	OMS
	Rust
	NodeJS
)

var languageNames = [...]string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"}

// String is the name on the wire; a number that is no language is "OTHER".
func (l Language) String() string {
	if int(l) >= len(languageNames) {
		l = Other
	}
	return languageNames[l]
}

func languageByName(name string) Language {
	for l, n := range languageNames {
		if n == name {
			return Language(l)
		}
	}
	return Other
}

// Command is one frame: a request or the answer to one (RocketMQ 4.9.8, spec/ha-protocol.md 6.18).
// The zero value is a request of code 0 with a JSON header from Java; [NewRequest] is the usual start.
type Command struct {
	Code      int32 // a request's kind; in an answer 0 = success
	Language  Language
	Version   int32 // of the sender. A binary header carries code and version as 16 bits
	Opaque    int32 // the request's id, echoed in its answer
	Flag      int32
	Remark    string // error text of an answer; "" = absent
	ExtFields map[string]string
	Body      []byte

	Serialization Serialization
}

// NewRequest is a request as a 4.9.8 broker would send it, but for the language. A [Client] sets Opaque.
func NewRequest(code int32) *Command {
	return &Command{Code: code, Language: Go, Version: Version409}
}

// NewResponse is the answer to req: its opaque and serialization, without body.
func NewResponse(req *Command, code int32, remark string) *Command {
	return &Command{
		Code: code, Language: Go, Version: Version409, Opaque: req.Opaque, Flag: flagResponse, Remark: remark,
		Serialization: req.Serialization,
	}
}

// IsResponse says whether c answers a request.
func (c *Command) IsResponse() bool { return c.Flag&flagResponse != 0 }

// IsOneWay says whether c is a request that nobody answers.
func (c *Command) IsOneWay() bool { return c.Flag&flagOneWay != 0 }

// Err is nil for a successful answer, else a *[CodeError].
func (c *Command) Err() error {
	if c.Code == Success {
		return nil
	}
	return &CodeError{Code: c.Code, Remark: c.Remark}
}

// CodeError is an answer other than success.
type CodeError struct {
	Code   int32
	Remark string
}

func (e *CodeError) Error() string { return fmt.Sprintf("answered with code %d: %q", e.Code, e.Remark) }
