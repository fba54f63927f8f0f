package durable

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A slot is one header and the value, little-endian:
//
//	0  magic    8 bytes
//	8  version  uint32
//	12 length   uint32, of the value
//	16 CRC-32C  uint32, over everything but itself
//	20 zero     uint32
//	24 sequence uint64, 0 in a new file, one more with every write
//	32 value
const (
	slotMagic   = "nfslots\n"
	slotVersion = 1
	headerSize  = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is a decoded header. What a torn write left there is any header at
// all, until the CRC says otherwise.
type header struct {
	version, length, crc uint32
	seq                  uint64
}

func encodeSlot(seq uint64, data []byte) []byte {
	b := make([]byte, headerSize+len(data))
	copy(b, slotMagic)
	binary.LittleEndian.PutUint32(b[8:], slotVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(data)))
	binary.LittleEndian.PutUint64(b[24:], seq)
	copy(b[headerSize:], data)
	binary.LittleEndian.PutUint32(b[16:], slotSum(b))
	return b
}

// slotSum is the CRC of an encoded slot, whatever is in its CRC field.
func slotSum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:16])
	return crc32.Update(sum, castagnoli, b[20:])
}

// parseHeader reports ok = false for bytes that never were a slot's.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerSize || !bytes.Equal(b[:8], []byte(slotMagic)) {
		return header{}, false
	}
	return header{
		version: binary.LittleEndian.Uint32(b[8:]),
		length:  binary.LittleEndian.Uint32(b[12:]),
		crc:     binary.LittleEndian.Uint32(b[16:]),
		seq:     binary.LittleEndian.Uint64(b[24:]),
	}, true
}

// parseSlot returns the value of a complete slot.
func parseSlot(b []byte) (h header, data []byte, ok bool) {
	h, ok = parseHeader(b)
	if !ok || h.version != slotVersion || int64(h.length) != int64(len(b))-headerSize || h.crc != slotSum(b) {
		return header{}, nil, false
	}
	return h, b[headerSize:], true
}
