package natsserver

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

const (
	// passwordFile is the file below the data directory with the password.
	passwordFile = "nats.password"
	// passwordVar is the variable that nats.conf reads the password from.
	passwordVar = "BELAY_NATS_PASSWORD"
	// userName is the user that nats.conf gives the password to.
	userName = "belay"
)

// passwordForm is what a password looks like. It begins with a letter because
// nats-server's parser takes a value of digits for a number.
var passwordForm = regexp.MustCompile(`^b[0-9a-f]{32}$`)

// password returns the password kept below dir; the first call makes it.
func password(dir string) (string, error) {
	path := filepath.Join(dir, passwordFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newPassword(dir)
	}
	if err != nil {
		return "", diskError(dir, err)
	}
	if !passwordForm.Match(b) {
		return "", fail(ErrConfig, nil,
			"%s does not hold a password that belay made (b and 32 hex digits): remove the file, and belay makes a new one", path)
	}
	return string(b), nil
}

// newPassword makes a password and keeps it below dir.
func newPassword(dir string) (string, error) {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	pw := "b" + hex.EncodeToString(raw[:])
	if err := writeFile(dir, passwordFile, []byte(pw)); err != nil {
		return "", diskError(dir, err)
	}
	return pw, nil
}
