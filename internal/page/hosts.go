package page

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Serving returns a handler of the same page that is served under further names
// on a loopback address.
func (h *Handler) Serving(names ...string) http.Handler {
	return &named{h, names}
}

// named is a page under further names.
type named struct {
	page  *Handler
	names []string
}

func (n *named) ServeHTTP(w http.ResponseWriter, r *http.Request) { n.page.serve(w, r, n.names) }

// allowed says whether r may be answered. A page on a loopback address is for who
// sits at the machine; but a web site that he looks at may let its name mean
// 127.0.0.1, and its script then reads the page as its own. The browser sends that
// name as the host. On other addresses any name may be the server's.
func allowed(r *http.Request, names []string) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return true // not a server of net/http
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return true // a Unix socket, say
	}
	name := nameOf(r.Host)
	if name == "localhost" || slices.ContainsFunc(names, func(other string) bool { return nameOf(other) == name }) {
		return true
	}
	_, err = netip.ParseAddr(name)
	return err == nil
}

// nameOf returns the name or the address in a host with or without a port, as it
// is compared.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
