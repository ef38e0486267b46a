package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// ErrDamaged means that a file is not a whole backup.
var ErrDamaged = errors.New("not a whole backup")

// Names of entries.
const (
	manifestEntry = "manifest.json"
	sumEntry      = "sha256"
)

// maxEntry bounds what is read of one entry into memory, in bytes.
const maxEntry = 16 << 20

// writer writes the entries of a backup.
type writer struct {
	out  io.Writer
	hash hash.Hash
	tar  *tar.Writer
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, hash: sha256.New()}
	w.tar = tar.NewWriter(io.MultiWriter(out, w.hash))
	return w
}

// add writes one entry.
func (w *writer) add(name string, data []byte) error {
	if err := addEntry(w.tar, name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// close writes the end, which says what all before has to be.
func (w *writer) close() error {
	if err := w.tar.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", sumEntry, err)
	}
	if _, err := w.out.Write(trailer(w.hash.Sum(nil))); err != nil {
		return fmt.Errorf("write %s: %w", sumEntry, err)
	}
	return nil
}

func addEntry(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// trailer is the last entry and the end of the tar file. It is the same bytes
// for the same sum, so that every byte of it can be checked.
func trailer(sum []byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = addEntry(w, sumEntry, []byte(hex.EncodeToString(sum)+"\n")) // to memory
	_ = w.Close()
	return b.Bytes()
}

// Archive is a whole backup, opened for reading.
type Archive struct {
	// Manifest says what is in it.
	Manifest Manifest

	file *os.File
	tar  *tar.Reader
}

// Open checks every byte of a backup and reads its manifest. ErrDamaged if it
// is not whole. Close it.
func Open(path string) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	a := &Archive{file: f}
	if err := a.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open backup %s: %w", path, err), f.Close())
	}
	return a, nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }

func (a *Archive) open() error {
	if err := checkSum(a.file); err != nil {
		return err
	}
	if err := a.rewind(); err != nil {
		return err
	}
	for {
		h, err := a.tar.Next()
		if err != nil {
			return fmt.Errorf("%w: it has no %s", ErrDamaged, manifestEntry)
		}
		if h.Name != manifestEntry {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(a.tar, maxEntry))
		if err != nil {
			return fmt.Errorf("read %s: %w", manifestEntry, err)
		}
		if a.Manifest, err = decodeManifest(b); err != nil {
			return err
		}
		return a.rewind()
	}
}

func (a *Archive) rewind() error {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	a.tar = tar.NewReader(a.file)
	return nil
}

// checkSum compares the file with what its end says.
func checkSum(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	size := info.Size() - int64(len(trailer(make([]byte, sha256.Size))))
	if !info.Mode().IsRegular() || size <= 0 {
		return fmt.Errorf("%w: it is no file, or too short", ErrDamaged)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, size); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(end, trailer(sum.Sum(nil))) {
		return fmt.Errorf("%w: its SHA-256 is not the one that it ends with", ErrDamaged)
	}
	return nil
}

// next returns the next entry of a stream; io.EOF when there is none.
func (a *Archive) next(stream string) ([]byte, error) {
	h, err := a.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, err)
	}
	if !strings.HasPrefix(h.Name, stream+"/") {
		return nil, fmt.Errorf("%w: %s where a part of %s should be", ErrDamaged, h.Name, stream)
	}
	b, err := io.ReadAll(io.LimitReader(a.tar, maxEntry))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", h.Name, err)
	}
	return b, nil
}
