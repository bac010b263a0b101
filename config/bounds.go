package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// Limits that no real configuration reaches. The library's parser needs time and stack that grow with the depth, and with the
// number of keys of a mapping. For each missing value it moves all later tokens.
const (
	maxDepth = 50
	maxKeys  = 200     // of one mapping
	maxMoves = 1 << 32 // missing values, times tokens
)

// bounds counts the constructs that slow the parser down, in the tokens of a file.
type bounds struct {
	brackets, chain int         // brackets: open ones; chain: other tokens that open a value, since a comma or the start of the line
	keys            map[int]int // of the open mappings, by the column of their keys
	missing         int
}

// tooMuch returns an error for tokens that the library's parser would need too long for, and the token at which a limit is
// exceeded.
func tooMuch(tokens token.Tokens) (at *token.Token, err error) {
	b, line := bounds{keys: map[int]int{}}, 0
	var key, last *token.Token // the last two tokens that are not comments
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if last != nil && b.misses(key, last, t) {
			b.missing++
		}
		if t.Position.Line != line {
			line, b.chain = t.Position.Line, 0
			b.close(t.Position.Column)
		}
		if err := b.add(last, t); err != nil {
			return t, err
		}
		if int64(b.missing)*int64(len(tokens)) > maxMoves {
			return t, fmt.Errorf("%d keys or entries have no value: leave them out", b.missing)
		}
		key, last = last, t
	}
	return nil, nil
}

// close removes the keys of mappings that end because a line begins in a column.
func (b *bounds) close(column int) {
	for c := range b.keys {
		if c > column && b.brackets == 0 {
			delete(b.keys, c)
		}
	}
}

// add counts t, which follows last.
func (b *bounds) add(last, t *token.Token) error {
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		b.brackets++
	case token.SequenceEndType, token.MappingEndType:
		b.brackets--
	case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.AnchorType, token.TagType:
		b.chain++
	case token.CollectEntryType:
		b.chain = 0
	}
	if b.brackets > maxDepth || b.chain > maxDepth {
		return errors.New("values are nested too deeply")
	}
	if t.Type == token.MappingValueType && b.brackets == 0 {
		column := columnOf(last, t)
		if b.keys[column]++; b.keys[column] > maxKeys {
			return fmt.Errorf("more than %d keys beside each other", maxKeys)
		}
	}
	return nil
}

// columnOf returns the column of the entry whose value follows t. key is the token before t.
func columnOf(key, t *token.Token) int {
	if t.Type == token.MappingValueType && key != nil && key.Position.Line == t.Position.Line {
		return key.Position.Column
	}
	return t.Position.Column
}

// misses reports whether the value that t opens is missing, because next follows. key is the token before t.
func (b *bounds) misses(key, t, next *token.Token) bool {
	column, isKey := columnOf(key, t), t.Type == token.MappingValueType
	switch {
	case !isKey && t.Type != token.SequenceEntryType:
		return false
	case b.brackets > 0:
		return next.Type == token.CollectEntryType || next.Type == token.SequenceEndType || next.Type == token.MappingEndType
	case isKey && next.Type == token.SequenceEntryType && next.Position.Column == column: // a list may begin in its key's column
		return false
	}
	return next.Position.Line > t.Position.Line && next.Position.Column <= column
}
