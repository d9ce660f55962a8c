"""What the stories have in common: users, and inodes of every kind."""
import errno
import os
import stat

from twin import Twin

ALICE, BOB = 65534, 65533
TYPES = {"file": stat.S_IFREG, "fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK,
         "char": stat.S_IFCHR, "block": stat.S_IFBLK}


def make(t: Twin, kind, name, mode=0o644):
    """An inode of any kind, of this mode."""
    if kind == "dir":
        os.mkdir(t.path(name))
    elif kind == "symlink":
        os.symlink("nowhere", t.path(name))
        return
    else:
        os.mknod(t.path(name), TYPES[kind] | 0o600, os.makedev(1, 3))
    os.chmod(t.path(name), mode)


KINDS = ["file", "dir", "fifo", "socket", "char", "block", "symlink"]


def tried(call, *arguments):
    """Its result, or the name of its errno."""
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
