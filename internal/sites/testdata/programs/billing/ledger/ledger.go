// Package ledger is of another module, whose path has no dot, as the standard
// library's have none.
package ledger

import "net/http"

func Serve(http.ResponseWriter, *http.Request) {
	<-make(chan int) // planted: module without a dot
}
