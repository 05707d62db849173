package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mounted is where a path's bytes go, as the system says; empty where it does not.
type mounted struct {
	fileSystem string // ext4, nfs4 …
	device     string // /dev/sda1, host:/export …
	point      string // where it is mounted
	number     string // major:minor
	options    []string
}

// mountOf finds dir's file system in a Linux mountinfo (proc_pid_mountinfo(5)); dir has no links in it.
func mountOf(mountinfo, dir string) (m mounted) {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if len(f) < 6 || dash < 6 || len(f) < dash+4 {
			continue
		}
		point := unescapeMount(f[4])
		if !within(point, dir) || len(point) < len(m.point) {
			continue
		}
		m = mounted{f[dash+1], unescapeMount(f[dash+2]), point, f[2], append(strings.Split(f[5], ","), strings.Split(f[dash+3], ",")...)} // a later mount on the same point hides the earlier one
	}
	return m
}

func within(point, dir string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
}

// unescapeMount undoes the octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountedAt is where dir lies.
func mountedAt(dir string) mounted {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mounted{}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return mounted{}
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return mountOf(string(info), dir)
}

func (m mounted) String() string {
	if m.fileSystem == "" {
		return "a file system that this system does not name"
	}
	return printable(fmt.Sprintf("%s on %s, mounted at %s", m.fileSystem, m.device, m.point))
}

func (m mounted) memory() bool { return slices.Contains([]string{"tmpfs", "ramfs"}, m.fileSystem) }

func (m mounted) network() bool {
	for _, prefix := range []string{"/dev/rbd", "/dev/nbd", "/dev/drbd"} {
		if strings.HasPrefix(m.device, prefix) {
			return true
		}
	}
	fs := strings.TrimPrefix(m.fileSystem, "fuse.")
	return slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "lustre", "afs", "sshfs", "s3fs", "gcsfuse", "beegfs", "gpfs", "ocfs2", "gfs2"}, fs)
}

// blockDevice is what the kernel says of the device below a file system.
type blockDevice struct {
	dir string // in /sys; "" = unknown
}

func (m mounted) blockDevice() blockDevice {
	dir, err := filepath.EvalSymlinks("/sys/dev/block/" + m.number)
	if err != nil || m.number == "" {
		return blockDevice{}
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir) // flushes are counted for the whole disk
	}
	return blockDevice{dir}
}

// writeCache is "write back" (the device keeps writes in memory until it is told to flush), "write through", or "" where nobody says.
func (d blockDevice) writeCache() string {
	if d.dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "queue", "write_cache"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// flushes is how often the device was told to flush its cache, ever; -1: unknown.
func (d blockDevice) flushes() int64 {
	if d.dir == "" {
		return -1
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "stat"))
	if err != nil {
		return -1
	}
	f := strings.Fields(string(b))
	if len(f) < 17 {
		return -1 // Linux before 5.5
	}
	n, err := strconv.ParseInt(f[15], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Times of one fdatasync of 4 KiB that tell disks apart.
const (
	syncNoDevice  = 10 * time.Microsecond
	syncCapacitor = 60 * time.Microsecond
	syncSlow      = 3 * time.Millisecond
)

// verdict is what can be said of the disk's promise to keep what was synced. p50 is the median fdatasync of 4 KiB; of syncs of them the device was told of flushes (-1: unknown).
func verdict(m mounted, writeCache string, p50 time.Duration, syncs, flushes int64) (word, text string) {
	took := p50.Round(100 * time.Nanosecond).String()
	switch {
	case m.memory():
		return "memory", fmt.Sprintf("This is memory (%s): nothing here survives a power failure, and its fdatasync says nothing of a disk. Give a DIR on the disk that you mean.", m.fileSystem)
	case m.network():
		return "network", fmt.Sprintf("This is across a network (%s): its figures are the network's and the server's, whose disk decides what a power failure loses. A store belongs on a local disk.", m.fileSystem)
	case slices.Contains(m.options, "nobarrier") || slices.Contains(m.options, "barrier=0"):
		return "lies", "Mounted without barriers: the disk is never told to empty its cache, so a power failure can lose what was synced. Mount it with barriers."
	case writeCache == "write back" && flushes == 0 && syncs >= 10:
		return "lies", fmt.Sprintf("The disk says that it keeps writes in a cache, but of %d fdatasyncs none made the kernel tell it to empty that. A power failure can lose what was synced.", syncs)
	case p50 < syncNoDevice:
		return "lies", fmt.Sprintf("An fdatasync takes %s: no device is that fast. Somebody answers before the bytes are safe (a cache, a hypervisor), and a power failure can lose what was synced.", took)
	case p50 < syncCapacitor:
		return "fast", fmt.Sprintf("An fdatasync takes %s: honest only of a disk with capacitors or a controller with a battery. If yours has neither, it lies, and a power failure can lose what was synced.", took)
	case p50 > syncSlow:
		return "slow", fmt.Sprintf("An fdatasync takes %s: a spinning disk, a busy one, or one across a network. Synchronous puts wait for that; many producers share one.", took)
	}
	return "plausible", fmt.Sprintf("An fdatasync takes %s, as of an SSD or a virtual disk that tells the truth. Only a pulled plug proves it.", took)
}
