package closure

// Sweep is what happens now and then.
var Sweep = (*Reader).sweep
