package record

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/metric"
)

type panickyFloat struct{ metric.Float64Histogram }

func (panickyFloat) Record(context.Context, float64, ...metric.RecordOption) {
	panic("thrown by the test")
}

type panickyInt struct{ metric.Int64Histogram }

func (panickyInt) Record(context.Context, int64, ...metric.RecordOption) { panic("thrown by the test") }

func TestRecordingSurvivesAProviderThatPanics(t *testing.T) {
	float := Float{To: panickyFloat{}}
	float.Record(context.Background(), 1)
	integer := Int{To: panickyInt{}}
	integer.Record(context.Background(), 1)
}

func TestZeroHistogramRecordsNothing(t *testing.T) {
	var float Float
	float.Record(context.Background(), 1)
	var integer Int
	integer.Record(context.Background(), 1)
	assert.False(t, float.Enabled())
	assert.False(t, integer.Enabled())
}
