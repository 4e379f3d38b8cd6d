module billing

go 1.26
