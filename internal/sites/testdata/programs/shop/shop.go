// Package shop is the root of its module.
package shop

import "net/http"

func Serve(http.ResponseWriter, *http.Request) {
	<-make(chan int) // planted: root
}
