package doctor

import "syscall"

// magic names the filesystems that matter here, by their number in statfs(2).
var magic = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}

// filesystem names the kind of filesystem that a folder is on.
func filesystem(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return ""
	}
	return magic[int64(st.Type)]
}

// full tells how full the disk of a folder is, in percent, for whoever is not
// root.
func full(dir string) int {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil || st.Blocks == 0 {
		return 0
	}
	used := st.Blocks - st.Bfree
	if used+st.Bavail == 0 {
		return 0
	}
	return int(100 * used / (used + st.Bavail)) //nolint:gosec // a percentage
}
