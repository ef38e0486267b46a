package executor

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// runAs is the user that commands run as; without a credential, belay's own.
type runAs struct {
	cred *credential
	name string
}

// findRunAs resolves a user name, a uid or uid:gid.
func findRunAs(s string) (runAs, error) {
	if s == "" {
		return runAs{}, nil
	}
	if os.Geteuid() != 0 {
		return runAs{}, fmt.Errorf("run_as %q needs belay to run as root", s)
	}
	id, gid, both := strings.Cut(s, ":")
	u, err := user.Lookup(id)
	if err != nil {
		u, err = user.LookupId(id)
	}
	switch {
	case err == nil:
	case both:
		u = &user.User{Uid: id, Username: id} // a number needs no entry
	default:
		return runAs{}, fmt.Errorf("run_as %q: no such user; one without an entry is written uid:gid", s)
	}
	groups := []string{}
	if both {
		u.Gid = gid
	} else if groups, err = u.GroupIds(); err != nil {
		return runAs{}, fmt.Errorf("run_as %q: %w", s, err)
	}
	var ids []uint32
	for _, g := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(g, 10, 32)
		if err != nil {
			return runAs{}, fmt.Errorf("run_as %q: %w", s, err)
		}
		ids = append(ids, uint32(n))
	}
	if ids[0] == 0 {
		return runAs{}, fmt.Errorf("run_as %q is root; leave it out or name another user", s)
	}
	groupIDs := slices.Compact(slices.Sorted(slices.Values(ids[1:])))
	return runAs{cred: &credential{UID: ids[0], GID: ids[1], Groups: groupIDs}, name: u.Username}, nil
}

// reach reports why the user cannot enter dir, if so.
func (r runAs) reach(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("no file owners here")
		}
		may := fi.Mode().Perm() & 0o001
		if st.Uid == r.cred.UID {
			may = fi.Mode().Perm() & 0o100
		} else if slices.Contains(r.cred.Groups, st.Gid) {
			may = fi.Mode().Perm() & 0o010
		}
		if may == 0 {
			return fmt.Errorf("user %s may not enter %s", r.name, d)
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}
