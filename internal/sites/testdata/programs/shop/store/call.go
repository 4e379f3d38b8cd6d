package store

import "net/http"

// Assembly calls back into Go, which waits.
func Assembly(http.ResponseWriter, *http.Request) { call() }

func call()

func back() {
	<-make(chan int) // planted: assembly
}
