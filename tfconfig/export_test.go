package tfconfig

const MaxFile = maxFile

var (
	Parse    = parse
	MayCall  = mayCall
	Describe = describe
	ParseCLI = parseCLI
)

// IsFunction reports whether a function of a client is evaluated, or listed as not evaluated.
func IsFunction(c Client, name string) bool {
	_, ok := (&scope{client: c}).functions()[name]
	return ok
}
