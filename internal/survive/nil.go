package survive

import (
	"context"
	"reflect"
)

// IsNil reports whether v is nil or holds a nil pointer, which a variable of a
// concrete type that was never set turns into on its way into an interface.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

// ContextOrBackground lets a caller who has no context pass nil.
func ContextOrBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
