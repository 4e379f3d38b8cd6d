package response

import (
	"io"
	"io/fs"
	"math"
	"net/http"
	"syscall"
)

// readFrom lets to read the source, in one call. How a copy is cut up and when
// its parts go out is to's affair: net/http looks at the first 512 bytes of a
// call, sends them, and hands the rest to sendfile or splice, by the type of the
// source. A second call, say for all but the first bytes, would hold bytes back
// until it has another 512.
//
// The first byte starts the response, and not the call: from an empty source
// net/http writes no head, and a slow one may deliver when the client has left.
func (w *writer) readFrom(to io.ReaderFrom, source io.Reader) (int64, error) {
	if w.head.Load() != 0 || w.has(hijacked) {
		n, err := to.ReadFrom(source)
		w.wrote(n)
		return n, err
	}
	if isFile(source) {
		// Nobody waits for what is in a file: the first byte comes now, if any.
		late := w.ctx.Err() != nil
		n, err := to.ReadFrom(source)
		if n > 0 {
			w.started(http.StatusOK, late)
		}
		w.wrote(n)
		return n, err
	}
	watched, done := w.watch(source)
	defer done()
	n, err := to.ReadFrom(watched)
	if n > 0 {
		w.start(http.StatusOK) // read in a way that was not watched
	}
	w.wrote(n)
	return n, err
}

// isFile reports whether a source is a file on a disk, or the first bytes of one.
func isFile(source io.Reader) bool {
	if limited, ok := source.(*io.LimitedReader); ok {
		source = limited.R
	}
	file, ok := source.(interface {
		fs.File
		syscall.Conn
	})
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// watch returns what reads like the source and starts the response with its
// first byte, and what to do when it has been read.
//
// net looks for connections behind an *io.LimitedReader, whose reader may be
// changed. So the source goes into one, if it is none itself, and is its reader
// again before the first byte is read: what splices finds the connection. Only a
// source that writes itself is not for that; net knows no connection of its own
// that does and is not also a syscall.Conn.
func (w *writer) watch(source io.Reader) (io.Reader, func()) {
	limited, ok := source.(*io.LimitedReader)
	if !ok {
		writerTo, writes := source.(io.WriterTo)
		if _, conn := source.(syscall.Conn); writes && !conn {
			return &watchedWriterTo{watchedReader{source, w}, writerTo}, func() {}
		}
		limited = &io.LimitedReader{R: source, N: math.MaxInt64}
	}
	first := &firstReader{limited, limited.R, w}
	limited.R = first
	return limited, first.remove
}

// firstReader is the reader of a LimitedReader until the first byte has come.
type firstReader struct {
	limited *io.LimitedReader
	source  io.Reader
	w       *writer
}

func (r *firstReader) Read(p []byte) (int, error) {
	r.remove()
	n, err := r.source.Read(p)
	if n > 0 {
		r.w.start(http.StatusOK)
	} else {
		r.limited.R = r
	}
	return n, err
}

func (r *firstReader) remove() { r.limited.R = r.source }

// watchedReader starts the response with the first byte that is read.
type watchedReader struct {
	source io.Reader
	w      *writer
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if n > 0 {
		r.w.start(http.StatusOK)
	}
	return n, err
}

// watchedWriterTo is a source that can also write itself, as net/http lets it
// where it cannot use sendfile.
type watchedWriterTo struct {
	watchedReader
	writerTo io.WriterTo
}

func (r *watchedWriterTo) WriteTo(to io.Writer) (int64, error) {
	first := firstWriter{to, r.w}
	if readerFrom, ok := to.(io.ReaderFrom); ok {
		return r.writerTo.WriteTo(&firstReaderFrom{first, readerFrom})
	}
	return r.writerTo.WriteTo(&first)
}

// firstWriter starts the response with whatever is written, be it nothing, as
// net/http does. The bytes are noted by readFrom.
type firstWriter struct {
	to io.Writer
	w  *writer
}

func (f *firstWriter) Write(p []byte) (int, error) {
	f.w.start(http.StatusOK)
	return f.to.Write(p)
}

func (f *firstWriter) WriteString(s string) (int, error) {
	f.w.start(http.StatusOK)
	return io.WriteString(f.to, s)
}

// firstReaderFrom is one that can also read from a source.
type firstReaderFrom struct {
	firstWriter
	readerFrom io.ReaderFrom
}

func (f *firstReaderFrom) ReadFrom(source io.Reader) (int64, error) {
	if f.w.head.Load() != 0 {
		return f.readerFrom.ReadFrom(source)
	}
	watched, done := f.w.watch(source)
	defer done()
	return f.readerFrom.ReadFrom(watched)
}
