"""Stories of sizes and times."""
import ctypes
import os

from posix_kinds import ALICE, BOB, KINDS, make
from twin import check, libc


# ---- sizes and times --------------------------------------------------------------------------

def truncation(t):
    for kind in KINDS:
        if kind in ("fifo", "char", "block"):
            continue
        make(t, kind, "x", 0o777)
        t.truncate("x", 10)
        t.truncate("x", -1)
        t.see("x")
        os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))
    t.file("f", content=b"text")
    for size in (4, 10000, 3, 3, 0, 0, 123456789012):
        t.marks("f")
        t.truncate("f", size)
        t.changed("f")
        t.see("f")
    for size in (5, 5, 0, 0):
        with t.opened("f") as fd:
            t.marks("f")
            t.do(os.ftruncate, fd, size)
            t.changed("f")
    for size in (0, 7):
        os.truncate(t.path("f"), size)
        t.marks("f")
        with t.opened("f", os.O_WRONLY | os.O_TRUNC):
            pass
        t.changed("f")
    with t.opened("f", os.O_RDONLY) as fd:
        t.do(os.ftruncate, fd, 0)


def times_of_data(t):
    t.file("f", content=b"text" * 3000)
    with t.opened("f") as fd:
        for change in (lambda: os.pwrite(fd, b"x", 0), lambda: os.pwrite(fd, b"x", 50000),
                       lambda: os.pwrite(fd, b"", 0), lambda: os.posix_fallocate(fd, 0, 100),
                       lambda: os.posix_fallocate(fd, 0, 100000), lambda: os.fsync(fd),
                       lambda: fallocate(fd, 1, 0, 200000), lambda: fallocate(fd, 3, 0, 5000),
                       lambda: fallocate(fd, 0x10, 100, 9000), lambda: os.fchmod(fd, 0o600),
                       lambda: os.fchmod(fd, 0o600), lambda: os.fchown(fd, 0, 0),
                       lambda: os.setxattr(fd, "trusted.x", b"1"),
                       lambda: os.removexattr(fd, "trusted.x"),
                       lambda: os.getxattr(fd, "trusted.y"), lambda: os.utime(fd),
                       lambda: os.utime(fd, (1, 2)), lambda: os.lseek(fd, 0, os.SEEK_HOLE)):
            t.marks("f")
            try:
                change()
            except OSError as error:
                t.note("errno", error.errno)
            t.changed("f")


def fallocate(fd, mode, offset, length):
    check(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def fallocation(t):
    t.file("f", content=b"0123456789" * 2000)
    for mode in (0, 1, 2, 3, 8, 0x10, 0x11, 0x20, 0x40, 0x80):
        for offset, length in ((0, 0), (-1, 5), (100, 9000), (4096, 8192), (19990, 20),
                               (25000, 5000), (0, 1)):
            if mode in (8, 0x20):
                continue  # FUSE has no COLLAPSE_RANGE and INSERT_RANGE
            with t.opened("f") as fd:
                t.do(fallocate, fd, mode, offset, length)
            t.see("f")
            with open(t.path("f"), "rb") as file:
                t.note("content", file.read())
    with t.opened("f", os.O_RDONLY) as fd:
        t.do(fallocate, fd, 0, 0, 10)
    with t.opened(".", os.O_RDONLY) as fd:
        t.do(fallocate, fd, 0, 0, 10)


def setting_times(t):
    now, omit = (1 << 30) - 1, (1 << 30) - 2

    class Spec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    def utimensat(path, access, modification):
        pair = (Spec * 2)(Spec(*access), Spec(*modification))
        check(libc.utimensat(-100, os.fsencode(path), pair, 0x100))

    for kind in KINDS:
        make(t, kind, "x", 0o666)
        for access, modification in (((5, 6), (7, 8)), ((0, omit), (9, 1)), ((9, 2), (0, omit)),
                                     ((0, omit), (0, omit)), ((0, now), (0, omit)),
                                     ((0, omit), (0, now)), ((0, now), (0, now)),
                                     ((1, 1000000000), (1, 1)), ((1 << 33, 5), (-5, 5))):
            t.marks("x")
            t.do(utimensat, t.path("x"), access, modification)
            t.changed("x")
            if modification[1] < 1000000000 > access[1] and modification[0] != -5:
                t.note("mtime", os.lstat(t.path("x")).st_mtime_ns)
            for user in (ALICE, BOB):
                with t.user(user):
                    t.do(utimensat, t.path("x"), access, modification)
            os.chown(t.path("x"), ALICE, ALICE, follow_symlinks=False)
        os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))
