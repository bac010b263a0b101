package closure

const MaxFile = maxFile

var (
	Parse    = parse
	Describe = describe
	Sweep    = (*Reader).sweep // which happens now and then
)
