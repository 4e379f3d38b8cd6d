package survive

import "reflect"

// IsNil reports whether v is nil or holds a nil pointer, which a variable of a
// concrete type that was never set turns into on its way into an interface.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}
