package task

// scanner reads JSON text without building anything from it. It takes no more
// than encoding/json does; what it refuses, encoding/json may still take.
type scanner struct {
	data []byte
	at   int
}

// maxDepth bounds how deep a value may be nested.
const maxDepth = 32

// Scan calls member with the key and the text of each member of the JSON
// object that data is. It returns false when data is anything but one whole
// object with plain keys (a-z, 0-9 and _), or when member does. It is the fast
// way to read what this program wrote: who gets false asks encoding/json.
func Scan(data []byte, member func(key, value []byte) bool) bool {
	s := scanner{data: data}
	s.space()
	if !s.take('{') {
		return false
	}
	s.space()
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return false
		}
		s.space()
		key := s.at
		if !s.str() || !plainKey(data[key+1:s.at-1]) {
			return false
		}
		end := s.at - 1
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		value := s.at
		if !s.value(1) || !member(data[key+1:end], data[value:s.at]) {
			return false
		}
		s.space()
	}
	s.space()
	return s.at == len(data)
}

// ScanArray calls element with the text of each element of a JSON array, like
// Scan.
func ScanArray(data []byte, element func(value []byte) bool) bool {
	s := scanner{data: data}
	if !s.take('[') {
		return false
	}
	s.space()
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return false
		}
		s.space()
		value := s.at
		if !s.value(1) || !element(data[value:s.at]) {
			return false
		}
		s.space()
	}
	return s.at == len(data)
}

// plainKey reports whether a key matches no field but the one of its very
// name: encoding/json does not tell capital letters from small ones.
func plainKey(key []byte) bool {
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// value passes over one value.
func (s *scanner) value(depth int) bool {
	if s.at >= len(s.data) || depth > maxDepth {
		return false
	}
	switch s.data[s.at] {
	case '"':
		return s.str()
	case '{':
		return s.list('}', depth, true)
	case '[':
		return s.list(']', depth, false)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// list passes over an object or an array.
func (s *scanner) list(closing byte, depth int, keys bool) bool {
	s.at++
	s.space()
	for first := true; !s.take(closing); first = false {
		if !first && !s.take(',') {
			return false
		}
		s.space()
		if keys {
			if !s.str() {
				return false
			}
			s.space()
			if !s.take(':') {
				return false
			}
			s.space()
		}
		if !s.value(depth + 1) {
			return false
		}
		s.space()
	}
	return true
}

func (s *scanner) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// str passes over a string.
func (s *scanner) str() bool {
	if !s.take('"') {
		return false
	}
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < 0x20:
			return false
		case c == '\\':
			if !s.escape() {
				return false
			}
		default:
			s.at++
		}
	}
	return false
}

func (s *scanner) escape() bool {
	if s.at+1 >= len(s.data) {
		return false
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
		if s.at+6 > len(s.data) {
			return false
		}
		for _, c := range s.data[s.at+2 : s.at+6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
		s.at += 6
		return true
	}
	return false
}

func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}
