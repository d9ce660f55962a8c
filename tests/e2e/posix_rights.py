"""Stories of rights from other sides: access(2), many groups, what a change takes from a program,
links to what is others', extended attributes."""
import contextlib
import ctypes
import mmap
import os
import shutil
import struct

from posix_kinds import ALICE, BOB, KINDS, make, tried
from twin import check, libc

CAPABILITIES = struct.pack("<IIIII", 0x02000001, 1, 0, 0, 0)  # of security.capability, version 2


def access_calls(t):
    for mode in (0o000, 0o400, 0o040, 0o004, 0o010, 0o001, 0o700, 0o070, 0o007, 0o754):
        for kind in ("file", "dir"):
            make(t, kind, "x", mode)
            os.chown(t.path("x"), ALICE, 4242)
            for user in ((ALICE, ALICE), (BOB, 4242), (BOB, BOB, (1, 4242, 77)), (BOB, BOB),
                         (0, 0)):
                with t.user(*user):
                    for wanted in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.X_OK, 7):
                        t.do(os.access, t.path("x"), wanted, effective_ids=True)
                        t.do(os.access, t.path("x"), wanted)
            os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))
    os.symlink("nowhere", t.path("l"))
    t.do(os.access, t.path("l"), os.F_OK)
    t.do(os.access, t.path("l"), os.F_OK, follow_symlinks=False)


def many_groups(t):
    """More supplementary groups than a process usually has."""
    t.folder("d", 0o770)
    os.chown(t.path("d"), 0, 50300)
    t.file("d/f", 0o660, b"text")
    os.chown(t.path("d/f"), 0, 50499)
    for groups in (tuple(range(50000, 50300)), tuple(range(50000, 50301)),
                   tuple(range(50000, 50500))):
        with t.user(ALICE, ALICE, groups):
            t.fd("d/f", os.O_RDWR)
            t.fd("d/new", os.O_CREAT | os.O_RDWR)
            t.do(os.access, t.path("d/f"), os.R_OK, effective_ids=True)
            if 50499 in groups:
                t.chown("d/new", -1, 50499)
                t.chown("d/new", -1, 50500)
        t.see("d/new")


def privileges_lost(t):
    """Set-id bits and capabilities, by everything that changes a file's content or owner."""
    def fallocated(mode):
        return lambda fd: check(libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(4096)))

    def copied(fd):
        os.copy_file_range(source, fd, 100, 0, 0)

    def sent(fd):
        os.sendfile(fd, source, 0, 100)

    t.file("source", 0o666, b"s" * 1000)
    source = os.open(t.path("source"), os.O_RDONLY)
    changes = {"write": lambda fd: os.write(fd, b"x"), "writev": lambda fd: os.writev(fd, [b"x"]),
               "nothing": lambda fd: os.write(fd, b""), "copy": copied, "sendfile": sent,
               "truncate": lambda fd: os.truncate(t.path("f"), 10),
               "same size": lambda fd: os.truncate(t.path("f"), 8192),
               "O_TRUNC": lambda fd: os.close(os.open(t.path("f"), os.O_WRONLY | os.O_TRUNC)),
               "punch": fallocated(3), "zero": fallocated(0x10), "keep": fallocated(1),
               "chgrp": lambda fd: os.chown(t.path("f"), -1, 4242),
               "times": lambda fd: os.utime(t.path("f")),
               "link": lambda fd: os.link(t.path("f"), t.path("g")),
               "rename": lambda fd: os.rename(t.path("f"), t.path("f"))}
    for what, change in changes.items():
        for mode in (0o6777, 0o2767, 0o2666):
            for user in ((ALICE, ALICE), (BOB, BOB, (4242,)), (0, 0)):
                t.file("f", content=b"y" * 8192)
                os.chown(t.path("f"), BOB, 4242)
                os.chmod(t.path("f"), mode)
                os.setxattr(t.path("f"), "security.capability", CAPABILITIES)
                with t.user(*user), t.opened("f") as fd:
                    t.note(what, tried(change, fd) and None)
                t.see("f")
                t.note("capabilities", "security.capability" in os.listxattr(t.path("f")))
                os.unlink(t.path("f"))
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(t.path("g"))


def mode_alone(path):
    """As stat(1) and ls(1) ask: a file system may know it without asking for the rest."""
    result = ctypes.create_string_buffer(256)
    check(libc.statx(-100, os.fsencode(path), 0, 0x2, result))  # STATX_MODE
    return oct(struct.unpack_from("<H", result, 28)[0])


def set_id_bits_cleared_and_set_again(t):
    """Gone with the write that takes them, and there with the chmod(2) that sets them anew."""
    def past_the_page_cache(path):
        with mmap.mmap(-1, 4096) as memory, t.opened("f", os.O_WRONLY | os.O_DIRECT) as fd:
            os.pwritev(fd, [memory], 0)

    def written(flags, length):
        def write(path):
            with t.opened("f", os.O_WRONLY | flags) as fd:
                os.write(fd, b"x" * length)
        return write

    def mapped(path):
        with t.opened("f") as fd, mmap.mmap(fd, 4096) as memory:
            memory[0] = 1
            memory.flush()

    def allocated(mode, length):
        def allocate(path):
            with t.opened("f") as fd:
                check(libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(length)))
        return allocate

    kinds = {"direct": past_the_page_cache, "small": written(0, 10), "large": written(0, 1 << 20),
             "append": written(os.O_APPEND, 10), "synchronous": written(os.O_SYNC, 10),
             "mapped": mapped, "shorter": lambda path: os.truncate(path, 10),
             "longer": lambda path: os.truncate(path, 1 << 20), "emptied": written(os.O_TRUNC, 0),
             "allocated": allocated(0, 1 << 20), "punched": allocated(3, 4096),
             "zeroed": allocated(0x10, 4096)}
    for what, change in kinds.items():
        for mode in (0o6777, 0o4700, 0o2755, 0o2767):
            t.file("f", content=b"y" * 8192)
            os.chown(t.path("f"), BOB, BOB)
            os.chmod(t.path("f"), mode)
            with t.user(BOB):
                for _ in range(2):
                    mode_alone(t.path("f"))
                    t.note(what, tried(change, t.path("f")))
                    t.note("its mode then", mode_alone(t.path("f")))
                    t.chmod("f", mode)
                    t.note("its mode set", mode_alone(t.path("f")))
                    with t.opened("f", os.O_RDONLY) as fd:
                        os.fsync(fd)
                    t.see("f")
            t.unlink("f")


def linking_others_files(t):
    """fs.protected_hardlinks and protected_symlinks, as the machine has them."""
    t.folder("s", 0o1777)
    for mode in (0o600, 0o644, 0o666, 0o4777, 0o2777):
        t.file("s/f", mode)
        with t.user(ALICE):
            t.both(os.link, "s/f", "s/g")
        t.do(os.unlink, t.path("s/g"))
        os.unlink(t.path("s/f"))
    for kind in KINDS:
        make(t, kind, "s/x", 0o666)
        with t.user(ALICE):
            t.do(os.link, t.path("s/x"), t.path("s/g"), follow_symlinks=False)
        t.do(os.unlink, t.path("s/g"))
        t.do(shutil.rmtree if kind == "dir" else os.unlink, t.path("s/x"))
    t.file("target", 0o666, b"text")
    with t.user(BOB):
        os.symlink("../target", t.path("s/l"))
        open(t.path("s/own"), "w").close()
    os.chmod(t.path("s/own"), 0o666)
    os.mkfifo(t.path("s/fifo"))
    for user in (0, ALICE, BOB):
        with t.user(user):
            t.fd("s/l", os.O_RDONLY)
            t.stat("s/l")
            t.readlink("s/l")
            t.fd("s/own", os.O_CREAT | os.O_WRONLY)
            t.fd("s/own", os.O_WRONLY)


def attributes_by_name(t):
    for kind in KINDS:
        make(t, kind, "x", 0o666)
        for name in ("user.a", "trusted.a", "security.a", "system.a", "other.a", "user.", "user",
                     "", "trusted." + "n" * 247, "trusted." + "n" * 248, "user.a/b"):
            for user in (0, BOB):
                with t.user(user):
                    for call, arguments in ((os.setxattr, (b"1",)), (os.getxattr, ()),
                                            (os.removexattr, ())):
                        t.do(call, t.path("x"), name, *arguments, follow_symlinks=False)
        t.do(os.setxattr, t.path("x"), "trusted.a", b"1", os.XATTR_REPLACE, follow_symlinks=False)
        t.do(os.setxattr, t.path("x"), "trusted.a", b"1", 3, follow_symlinks=False)
        t.do(os.setxattr, t.path("x"), "trusted.a", b"1", 8, follow_symlinks=False)
        t.do(os.setxattr, t.path("x"), "trusted.a", b"v" * 65537, follow_symlinks=False)
        t.do(os.setxattr, t.path("x"), "trusted.a", b"1", follow_symlinks=False)
        for size in (0, 1, 2):
            t.note("sizes", tried(libc_getxattr, t.path("x"), size))
        with t.user(BOB):
            t.do(lambda: sorted(os.listxattr(t.path("x"), follow_symlinks=False)))
        os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))
    t.folder("sticky", 0o1777)
    with t.user(ALICE):
        t.setxattr("sticky", "user.a", b"1")


def libc_getxattr(path, size):
    buffer = ctypes.create_string_buffer(64)
    return check(libc.lgetxattr(os.fsencode(path), b"trusted.a", buffer, ctypes.c_size_t(size)))
