package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// A line is one entry as a JSON object whose last member is the CRC-32C of all
// bytes before that member, in a fixed shape, and a line feed:
//
//	{"v":1,"op":"put",...,"rec":{...},"payload":"aGVsbG8=","crc":"1a2b3c4d"}
//
// The payload stands last before it, in base64, so that opening a journal reads
// no further than to the record. json.Marshal writes no raw line feed, so lines
// are found without parsing.

const (
	payloadMark = `,"payload":"`
	crcMark     = `,"crc":"`
	tailLen     = len(crcMark) + 8 + len(`"}`) // without the line feed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFuture is a line that is whole but of a later version of this format.
var errFuture = errors.New("deadletter: journal was written by a later version")

// encodeHead returns e as a line that still lacks payload and CRC.
func encodeHead(e *entry) ([]byte, error) {
	if e.Rec != nil && e.Rec.Payload != nil {
		r := *e.Rec
		r.Payload = nil
		c := *e
		c.Rec = &r
		e = &c
	}
	head, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("deadletter: encode: %w", err)
	}
	if len(head) > maxHead {
		return nil, fmt.Errorf("%w: record of %d bytes without its payload, limit %d", ErrTooLarge, len(head), maxHead)
	}
	return head[:len(head)-1], nil
}

// appendPayload appends the member that holds payload, nothing for none.
func appendPayload(dst, payload []byte) []byte {
	if len(payload) == 0 {
		return dst
	}
	dst = append(dst, payloadMark...)
	dst = base64.StdEncoding.AppendEncode(dst, payload)
	return append(dst, '"')
}

// appendLine appends a line made of its parts.
func appendLine(dst, head, payload []byte) []byte {
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
	dst = append(dst, head...)
	dst = append(dst, payload...)
	dst = append(dst, crcMark...)
	dst = appendSum(dst, sum)
	return append(dst, `"}`+"\n"...)
}

func appendSum(dst []byte, sum uint32) []byte {
	return hex.AppendEncode(dst, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// body returns what the CRC of a line covers, if it is right.
func body(line []byte) ([]byte, bool) {
	n := len(line) - tailLen
	if n < 0 || string(line[n:n+len(crcMark)]) != crcMark || string(line[len(line)-2:]) != `"}` {
		return nil, false
	}
	// Compared as text, so that upper case is damage as well.
	var text [8]byte
	appendSum(text[:0], crc32.Checksum(line[:n], castagnoli))
	return line[:n], string(text[:]) == string(line[n+len(crcMark):len(line)-2])
}

// split divides the body of a line into head and the base64 of the payload.
func split(b []byte) (head, payload []byte) {
	if len(b) == 0 || b[len(b)-1] != '"' {
		return b, nil
	}
	// Base64 has no quote, so the one before the last begins the payload.
	open := bytes.LastIndexByte(b[:len(b)-1], '"')
	from := open + 1 - len(payloadMark)
	if from < 0 || string(b[from:open+1]) != payloadMark {
		return b, nil
	}
	return b[:from], b[open+1 : len(b)-1]
}

// decodeLine reads a line without its line feed, all but the payload. Errors
// are ErrCorrupt and errFuture.
func decodeLine(line []byte) (*entry, error) {
	b, ok := body(line)
	if !ok {
		return nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	return decodeBody(b)
}

// decodeBody is decodeLine for a line whose checksum is right.
func decodeBody(b []byte) (*entry, error) {
	head, _ := split(b)
	e := new(entry)
	if err := json.Unmarshal(append(bytes.Clone(head), '}'), e); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	switch e.Op {
	case opBase, opPut, opClaim, opExtend, opReturn, opRelease, opAck, opDiscard, opQuarantine, opPurge:
		if e.V == 1 {
			break
		}
		fallthrough
	default:
		return nil, fmt.Errorf("%w: version %d, operation %q", errFuture, e.V, e.Op)
	}
	switch {
	case e.Op == opBase && e.ID == "":
	case e.ID == "" || len(e.ID) > maxID:
		return nil, fmt.Errorf("%w: %s without an id", ErrCorrupt, e.Op)
	case e.Rec == nil && (e.Op == opPut || e.Op == opReturn):
		return nil, fmt.Errorf("%w: %s without a record", ErrCorrupt, e.Op)
	case e.Rec != nil && (e.Rec.ID != e.ID || e.Rec.Payload != nil):
		return nil, fmt.Errorf("%w: %s with another record", ErrCorrupt, e.Op)
	}
	return e, nil
}

// decodePayload returns the payload of a line.
func decodePayload(line []byte) ([]byte, error) {
	b, ok := body(line)
	if !ok {
		return nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	_, text := split(b)
	if len(text) == 0 {
		return nil, nil
	}
	out, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	if err != nil {
		return nil, fmt.Errorf("%w: payload: %v", ErrCorrupt, err)
	}
	return out, nil
}

// salvage finds whole lines inside bytes that are none: two lines whose line
// feed was hit, or one glued to a stub. It returns where they begin and end.
func salvage(b []byte) [][2]int {
	const tries = 64 // each costs a checksum of what is left
	var found [][2]int
	from := 0
	for range tries {
		start := bytes.Index(b[from:], []byte(`{"v":`))
		if start < 0 {
			return found
		}
		start += from
		end, next := 0, start
		for range tries {
			i := bytes.Index(b[next:], []byte(crcMark))
			if i < 0 || next+i+tailLen > len(b) {
				break
			}
			next += i + tailLen
			if _, ok := body(b[start:next]); ok {
				end = next
				break
			}
		}
		if end == 0 {
			from = start + 1
			continue
		}
		found = append(found, [2]int{start, end})
		from = end
	}
	return found
}

// decodeHead reads the record in the part of a line before its payload, whose
// checksum is sum. b has room for one more byte.
func decodeHead(b []byte, sum uint32) (Record, error) {
	if crc32.Checksum(b, castagnoli) != sum {
		return Record{}, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	var e entry
	if err := json.Unmarshal(append(b, '}'), &e); err != nil {
		return Record{}, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if e.Rec == nil {
		return Record{}, fmt.Errorf("%w: no record", ErrCorrupt)
	}
	return *e.Rec, nil
}
