// Package placeholder knows the texts that stand where an answer should: a model
// has said nothing, or a program before it has written down that it had nothing.
// There is one rule, for answers on the wire and for results in a folder.
//
//	text                                          counts, because
//	empty, blank, only punctuation                nothing is said
//	HTML elements that show nothing, &nbsp;       nothing is shown
//	null, nil, undefined, NaN, [object Object]    it is how a program prints what it does not have
//	n/a, no answer, no content, no output,        it says that there is no answer
//	no response, no summary (available),
//	content or summary unavailable
//	todo, TBD, placeholder, lorem ipsum           it says that the answer is still to come
//	JSON that holds nothing but such texts,       the same in a form
//	null and {}; [] by itself
//
// Upper and lower case, punctuation and invisible characters make no difference.
//
// A word that may be the answer to a question is one: none, unknown, error, na,
// yes, 0. So is {"findings": []}: there are none. Nothing longer than such a
// word is a placeholder, whatever it says; whether "I cannot do that" is an
// answer is for its reader to know.
//
// Empty answers under 200: lossless-claude/lcm#339, decolua/9router#2229. What
// becomes of them in a program that goes on: joshuaswarren/remnic#18.
package placeholder

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// words are the placeholders, in lower case and a space for whatever stands
// between the words.
var words = map[string]bool{
	"null": true, "nil": true, "undefined": true, "nan": true, "object object": true,
	"n a": true, "no answer": true, "no content": true, "no output": true, "no response": true,
	"no summary": true, "no summary available": true, "summary unavailable": true, "content unavailable": true,
	"todo": true, "tbd": true, "placeholder": true, "lorem ipsum": true,
}

const (
	// Longest is the length in bytes of the longest text that [Word] takes for
	// a placeholder, with all that is around the word.
	Longest = 64

	longestWord = len("no summary available")
)

// Is reports whether text says nothing, as a word or as a JSON document. A JSON
// document is judged by what it holds, not by how that is written: {"n":"a"} is
// no n/a, nor is the text "\n A", whose escape has an n.
func Is(text string) bool {
	text = strings.TrimFunc(text, Around)
	if text == "" {
		return true
	}
	switch text[0] {
	case '{', '[', '"':
		var doc any
		if json.Unmarshal([]byte(text), &doc) == nil {
			return Value(doc)
		}
	}
	return Word(text)
}

// Around reports whether r makes no difference around a text of any form: it is
// white space or a byte order mark.
func Around(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }

// Value reports whether a decoded JSON value says nothing.
func Value(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return Is(v)
	case []any:
		for _, e := range v {
			if !Value(e) {
				return false
			}
		}
		return true
	case map[string]any:
		lists := 0
		for _, e := range v {
			if l, ok := e.([]any); ok && len(l) == 0 {
				lists++
			} else if !Value(e) {
				return false
			}
		}
		// Lists that have a name and no element are an answer, unless a text
		// beside them is missing.
		return lists == 0 || lists < len(v)
	}
	return false
}

// The kinds of ASCII characters in plain that are no part of a word.
const (
	gap    = 0 // between words
	joined = 1 // shows nothing, and stands between nothing
)

// plain holds the ASCII characters in lower case, or what they are beside: Word
// is asked of every answer, and must cost next to nothing.
var plain = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		switch r := rune(c); {
		case unicode.IsSpace(r), unicode.IsPunct(r), r == '`', r == '|', r == '~':
			t[c] = gap
		case !unicode.IsGraphic(r):
			t[c] = joined
		default:
			t[c] = byte(unicode.ToLower(r))
		}
	}
	return t
}()

// Word reports whether s is one of the words, or nothing but white space,
// punctuation, HTML and characters that show nothing. It does not allocate.
func Word[S string | []byte](s S) bool {
	if len(s) > Longest {
		return false
	}
	var buf [longestWord + 3]byte
	word := buf[:0]
	space := false
	for i := 0; i < len(s); {
		c := s[i]
		switch n := markup(s[i:]); {
		case n > 0:
			i += n
			c = gap
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(string(s[i:]))
			i += n
			switch {
			case unicode.IsSpace(r), unicode.IsPunct(r):
				c = gap
			case modelapi.Blank(r), !unicode.IsGraphic(r):
				c = joined
			default:
				return false // the words are plain ASCII
			}
		default:
			i++
			c = plain[c]
		}
		switch c {
		case gap:
			space = len(word) > 0
			continue
		case joined:
			continue
		}
		if space {
			word, space = append(word, ' '), false
		}
		if word = append(word, c); len(word) > longestWord+2 {
			return false
		}
	}
	if n := len(word); n > 2 && word[0] == '<' && word[n-1] == '>' {
		word = word[1 : n-1] // as Go prints a nil
	}
	return len(word) == 0 || words[string(word)]
}

// tags are the HTML elements that show nothing by themselves. Others may be an
// answer: <yes/>.
var tags = map[string]bool{
	"br": true, "p": true, "div": true, "span": true, "hr": true, "b": true, "i": true, "em": true, "strong": true,
	"ul": true, "ol": true, "li": true, "pre": true, "code": true, "html": true, "body": true,
}

// markup returns the length of the tag, or of the space by name, that s begins
// with; 0 when it begins with neither.
func markup[S string | []byte](s S) int {
	const nbsp = "&nbsp;"
	switch {
	case s[0] == '&' && len(s) >= len(nbsp) && string(s[:len(nbsp)]) == nbsp:
		return len(nbsp)
	case s[0] != '<':
		return 0
	}
	for i := range len(s) {
		if s[i] == '>' {
			name := strings.ToLower(strings.Trim(string(s[1:i]), "/ "))
			if tags[name] {
				return i + 1
			}
			break
		}
	}
	return 0
}
