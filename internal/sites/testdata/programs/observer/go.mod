module example.com/gym/observer

go 1.26
