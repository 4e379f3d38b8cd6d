package store_test

import (
	"net/http"
	"testing"

	"example.com/gym/observer"
	"example.com/shop/store"
)

func TestRecord(*testing.T) {
	observer.Serve(http.HandlerFunc(store.Generic))
	observer.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-make(chan int) // planted: test
	}))
	observer.Print()
}
