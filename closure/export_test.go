package closure

const MaxFile = maxFile

var (
	Parse    = parse
	MayCall  = mayCall
	Describe = describe
	Sweep    = (*Reader).sweep // which happens now and then
)
