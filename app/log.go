package app

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The log is written when so many bytes are buffered or so much time is over: a write for each request would
// cost more than answering many requests does.
const (
	logBuffer = 64 << 10
	logDelay  = 250 * time.Millisecond
)

// newLog returns the JSON log on w. flush writes what is still buffered, and ends it.
func newLog(w io.Writer, level string) (log *zap.Logger, flush func()) {
	least, err := zapcore.ParseLevel(level)
	if err != nil { // checked when it was read
		least = zapcore.InfoLevel
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey = "time"
	encoder.MessageKey = "message"
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	out := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(w), Size: logBuffer, FlushInterval: logDelay}
	log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), out, least))
	return log, func() { out.Stop() }
}
