// Extra is a plugin.
package main

import "net/http"

func Serve(http.ResponseWriter, *http.Request) {
	<-make(chan int) // planted: plugin
}

func main() {}
