package closure

const MaxFile = maxFile

var (
	Parse = parse
	Sweep = (*Reader).sweep // which happens now and then
)
