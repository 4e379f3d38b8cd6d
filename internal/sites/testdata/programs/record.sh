#!/bin/bash
# Records the stacks of these programs, built in every way that changes names and
# files, into ../recorded. It builds in the folder given, which the recordings of
# builds without -trimpath show: let it be nobody's home. Linux on amd64.
set -euo pipefail
cd "$(dirname "$0")"
programs=$PWD recorded=$PWD/../recorded build=${1:?a folder to build in, such as /home/gopher/src}
cache=$(go env GOMODCACHE)
export GOPROXY="file://$cache/cache/download" GONOSUMDB='*' GOFLAGS='-mod=mod -buildvcs=false' GOMODCACHE="$build/mod" GOWORK=off CGO_ENABLED=1
rm -rf "$build" && mkdir -p "$build" "$recorded"
cp -r shop billing observer "$build"
cd "$build/shop"
go mod tidy
server() { "$build/server" > "$recorded/$1.json"; }

go build -o "$build/server" ./cmd/server && server plain
go build -trimpath -o "$build/server" ./cmd/server && server trimpath
go build -trimpath -ldflags '-s -w' -o "$build/server" ./cmd/server && server stripped
go build -o "$build/server" ./cmd/server/main.go && server files
go build -trimpath -o "$build/server" ./cmd/server/main.go && server files-trimpath
go test -c -o "$build/store.test" ./store && "$build/store.test" | sed '/^PASS/d' > "$recorded/test.json"
go test -c -trimpath -o "$build/store.test" ./store && "$build/store.test" | sed '/^PASS/d' > "$recorded/test-trimpath.json"
go build -o "$build/server" ./cmd/server && go build -buildmode=plugin -o "$build/extra.so" ./extra
"$build/server" "$build/extra.so" > "$recorded/plugin.json"

go mod vendor
GOFLAGS='-mod=vendor -buildvcs=false' go build -o "$build/server" ./cmd/server && server vendor
rm -r vendor

sed -i '/^replace/,/^)/d; /billing/d; /observer/d' go.mod # the workspace has them
cd .. && printf 'go 1.26.0\n\nuse (\n\t./shop\n\t./billing\n\t./observer\n)\n' > go.work
cd shop
GOWORK="$build/go.work" GOFLAGS=-buildvcs=false go build -o "$build/server" ./cmd/server && server workspace
GOWORK="$build/go.work" GOFLAGS=-buildvcs=false go build -trimpath -o "$build/server" ./cmd/server && server workspace-trimpath
cd "$programs" && chmod -R u+w "$build" && rm -rf "$build"
