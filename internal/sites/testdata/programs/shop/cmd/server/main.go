// Server waits in all the ways of the shop, and prints its stacks.
package main

import (
	"net/http"
	"os"
	"plugin"

	"billing/ledger"

	"example.com/gym/observer"
	"example.com/shop"
	"example.com/shop/store"
)

func main() {
	for _, handler := range []http.HandlerFunc{
		wait, ledger.Serve, shop.Serve, store.Generic, store.Function, store.Inlined, store.Deep, store.Generated,
		store.Elsewhere, store.Assembly, store.Child,
	} {
		observer.Serve(handler)
	}
	observer.Serve(store.Limiter{})
	if len(os.Args) > 1 {
		p, err := plugin.Open(os.Args[1])
		if err != nil {
			panic(err)
		}
		serve, err := p.Lookup("Serve")
		if err != nil {
			panic(err)
		}
		observer.Serve(http.HandlerFunc(serve.(func(http.ResponseWriter, *http.Request))))
	}
	observer.Print()
}

func wait(http.ResponseWriter, *http.Request) {
	<-make(chan int) // planted: main
}
