package github

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is encoding/json's limit of nesting.
const maxDepth = 10000

// scanner walks over JSON text once and checks its syntax as it goes. Its
// methods begin at the first byte of a value and end behind its last one.
type scanner struct {
	b     []byte
	i     int
	depth int
}

func (s *scanner) fail(what string) error {
	if s.i >= len(s.b) {
		return fmt.Errorf("%w: the JSON ends early, in %s", ErrParse, what)
	}
	return fmt.Errorf("%w: bad JSON at byte %d, in %s", ErrParse, s.i, what)
}

// next skips white space and returns the byte there, 0 at the end: a zero
// byte begins no value, so the two need no telling apart.
func (s *scanner) next() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// skip passes over one value of any kind.
func (s *scanner) skip() error {
	switch c := s.next(); {
	case c == '"':
		_, _, err := s.quoted()
		return err
	case c == '{':
		return s.members(nil)
	case c == '[':
		return s.elements(s.skip)
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.fail("a value")
}

// members walks over an object and calls field at each member's value, which
// field must consume; without field all are skipped.
func (s *scanner) members(field func(key []byte) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.next() == '}' {
		return s.leave()
	}
	for {
		if s.next() != '"' {
			return s.fail("an object's key")
		}
		raw, escaped, err := s.quoted()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail("an object, before a colon")
		}
		s.i++
		if field == nil {
			err = s.skip()
		} else {
			err = field(key(raw, escaped))
		}
		if err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.i++
		case '}':
			return s.leave()
		default:
			return s.fail("an object, after a value")
		}
	}
}

// elements walks over an array and calls elem at each element, which it must
// consume.
func (s *scanner) elements(elem func() error) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.next() == ']' {
		return s.leave()
	}
	for {
		if err := elem(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.i++
		case ']':
			return s.leave()
		default:
			return s.fail("an array, after a value")
		}
	}
}

func (s *scanner) enter() error {
	s.i++
	s.depth++
	if s.depth > maxDepth {
		return fmt.Errorf("%w: the JSON is nested deeper than %d", ErrParse, maxDepth)
	}
	return nil
}

func (s *scanner) leave() error {
	s.i++
	s.depth--
	return nil
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fail("a literal")
	}
	s.i += len(word)
	return nil
}

// quoted passes over a string and returns what stands between its quotes, and
// whether that has escapes.
func (s *scanner) quoted() (raw []byte, escaped bool, err error) {
	s.i++
	start := s.i
	for {
		s.i += plain(s.b[s.i:])
		if s.i >= len(s.b) {
			return nil, false, s.fail("a string")
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return s.b[start : s.i-1], escaped, nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, s.fail("a string, at a control character")
		}
	}
}

func (s *scanner) escape() error {
	s.i++
	if s.i >= len(s.b) {
		return s.fail("an escape")
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		for range 4 {
			s.i++
			if s.i >= len(s.b) || hexDigit(s.b[s.i]) < 0 {
				return s.fail("an escape")
			}
		}
		s.i++
		return nil
	}
	return s.fail("an escape")
}

// plain counts the bytes before the first quote, backslash or control
// character, eight at a time: a byte below n borrows into its high bit when n
// is taken away, and is told from a byte above 0x7f by its own high bit. The
// lowest bit found is exact; bits above it may be borrows of that one.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		found := (w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash
		if found &= highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return i
}

// number passes over a number of JSON's grammar.
func (s *scanner) number() error {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("a number")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.fail("a number")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}
