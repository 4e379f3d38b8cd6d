package store

import "net/http"

// Code that a generator wrote names the file that it was made from.

func Generated(http.ResponseWriter, *http.Request) {
//line parser.y:7
	<-make(chan int)
}

func Elsewhere(http.ResponseWriter, *http.Request) {
//line ../views/page.templ:9
	<-make(chan int)
}
