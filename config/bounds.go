package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// What no configuration has. The library's parser takes a time and a stack that grow with the depth and with the keys beside
// each other. For each value that is missing, it moves all tokens behind it.
const (
	maxDepth = 50
	maxKeys  = 200     // beside each other
	maxMoves = 1 << 32 // values that are missing, times tokens
)

// bounds counts what the parser would take long for, in the tokens of a file.
type bounds struct {
	brackets, chain int         // open ones; what opens a value otherwise, since a comma or the start of the line
	keys            map[int]int // in the mappings that are open, by the column of their keys
	missing         int
}

// tooMuch returns an error for tokens that the library's parser would take too long for, and the one where that shows.
func tooMuch(tokens token.Tokens) (at *token.Token, err error) {
	b, line := bounds{keys: map[int]int{}}, 0
	var key, last *token.Token // the last two that are no comments
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

// close forgets the keys of mappings that end where a line begins in a column.
func (b *bounds) close(column int) {
	for c := range b.keys {
		if c > column && b.brackets == 0 {
			delete(b.keys, c)
		}
	}
}

// add counts t, which comes after last.
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

// columnOf returns where the entry begins whose value follows t. key is what comes before t.
func columnOf(key, t *token.Token) int {
	if t.Type == token.MappingValueType && key != nil && key.Position.Line == t.Position.Line {
		return key.Position.Column
	}
	return t.Position.Column
}

// misses reports whether the value that t opens is missing, before next. key is what comes before t.
func (b *bounds) misses(key, t, next *token.Token) bool {
	column, isKey := columnOf(key, t), t.Type == token.MappingValueType
	switch {
	case !isKey && t.Type != token.SequenceEntryType:
		return false
	case b.brackets > 0:
		return next.Type == token.CollectEntryType || next.Type == token.SequenceEndType || next.Type == token.MappingEndType
	case isKey && next.Type == token.SequenceEntryType && next.Position.Column == column: // a list begins where its key does
		return false
	}
	return next.Position.Line > t.Position.Line && next.Position.Column <= column
}
