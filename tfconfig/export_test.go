package tfconfig

const MaxFile = maxFile

var (
	Parse    = parse
	MayCall  = mayCall
	Describe = describe
)

// IsFunction reports whether calls of a function of a client are evaluated, or are known not to be.
func IsFunction(c Client, name string) bool {
	_, ok := (&scope{client: c}).functions()[name]
	return ok
}
