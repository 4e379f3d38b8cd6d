package response

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// A request allocates its writer, and an allocation costs by the byte.
func TestWriterOfAHandlerIsSmall(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("smaller still with 32 bits")
	}
	assert.LessOrEqual(t, unsafe.Sizeof(http1Response{}), uintptr(48))
	assert.LessOrEqual(t, unsafe.Sizeof(http2Response{}), uintptr(48))
}
