package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// When this fails a field was added: let Append and Scan know it and count it.
// Until then encoding/json does their work, which is slow and right.
func TestAppendKnowsEveryField(t *testing.T) {
	t.Parallel()
	require.True(t, appendsRecord, "Record or Attempt")
	require.True(t, appendsDelivery, "Delivery or Spec")
}
