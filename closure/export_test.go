package closure

const MaxFile = maxFile

var (
	Parse    = parse
	MayCall  = mayCall
	Describe = describe
)
