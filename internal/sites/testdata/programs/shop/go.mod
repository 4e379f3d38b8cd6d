module example.com/shop

go 1.26

require (
	billing v0.0.0
	example.com/gym/observer v0.0.0
	golang.org/x/sync v0.25.0
)

replace (
	billing => ../billing
	example.com/gym/observer => ../observer
)
