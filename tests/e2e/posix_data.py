"""Stories of what is in files: flags that come after the open, mappings, far offsets, files without
names, direct I/O."""
import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import signal
import subprocess

from posix_kinds import ALICE, tried
from twin import check, libc, link_open

PAGE = mmap.PAGESIZE
KEEP, PUNCH, ZERO = 1, 3, 0x10  # of fallocate(2)
APPEND = 16  # RWF_APPEND
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def fallocate(fd, mode, offset, length):
    check(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


# ---- flags --------------------------------------------------------------------------------------

def flags_on_open_files(t):
    """chattr(1) of files that are open for writing: what is refused leaves every byte alone."""
    t.file("source", content=b"z" * 10000)
    source = os.open(t.path("source"), os.O_RDONLY)
    for flag in ("i", "a"):
        t.file("f", 0o666, b"data" * 3000)
        fd = os.open(t.path("f"), os.O_RDWR)
        t.marks("f")
        subprocess.run(["chattr", f"+{flag}", t.path("f")], check=True, capture_output=True)
        t.changed("f")
        for call in (lambda: os.pwrite(fd, b"x", 0), lambda: os.pwritev(fd, [b"x"], 0, APPEND),
                     lambda: os.copy_file_range(source, fd, 10, 0, 0),
                     lambda: os.sendfile(fd, source, 0, 10), lambda: os.ftruncate(fd, 5),
                     lambda: fallocate(fd, PUNCH, 10, 4096), lambda: fallocate(fd, ZERO, 0, 40000),
                     lambda: fallocate(fd, 0, 0, 20000), lambda: fallocate(fd, KEEP, 0, 90000),
                     lambda: os.fchmod(fd, 0o600), lambda: os.setxattr(fd, "user.a", b"1"),
                     lambda: os.fsync(fd)):
            t.do(call)
            t.note("content", os.pread(fd, 50000, 0))
        now, omit = (1 << 30) - 1, (1 << 30) - 2
        for times in ((now, now), (now, omit), (omit, now), (omit, omit), (5, 5)):
            pair = (ctypes.c_long * 4)(0, times[0], 0, times[1])
            t.note(f"times {times}",
                   tried(lambda: check(libc.utimensat(-100, os.fsencode(t.path("f")), pair, 0))))
        os.close(fd)
        subprocess.run(["chattr", f"-{flag}", t.path("f")], check=True, capture_output=True)
        os.unlink(t.path("f"))


# ---- mappings -----------------------------------------------------------------------------------

@contextlib.contextmanager
def mapped(fd, length, protection=3, flags=mmap.MAP_SHARED):
    address = libc.mmap(None, length, protection, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        yield address
    finally:
        libc.munmap(address, length)


def status_of(call):
    """How a child that does this ends: a signal's number, or 0."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        call()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def mappings(t):
    def peek(at, length):
        t.note("mapped", ctypes.string_at(address + at, length))

    def poke(at, data):
        ctypes.memmove(address + at, data, len(data))

    t.file("f", content=b"a" * 5000)
    with t.opened("f") as fd, mapped(fd, 4 * PAGE) as address:
        peek(5000, 2 * PAGE - 5000)
        poke(5000, b"beyond the end")
        libc.msync(address, 4 * PAGE, 4)
        t.note("read", os.pread(fd, 9000, 4990))
        os.ftruncate(fd, 2 * PAGE)
        t.note("what was written beyond the end is gone", os.pread(fd, 9000, 4990))
        peek(4990, 40)
        t.note("beyond the last page",
               status_of(lambda: ctypes.string_at(address + 2 * PAGE, 1)))
        poke(100, b"mapped")
        t.note("read", os.pread(fd, 10, 98))
        os.pwrite(fd, b"written", 200)
        peek(198, 10)
        os.ftruncate(fd, 300)
        t.note("cut off", status_of(lambda: ctypes.string_at(address + PAGE, 1)))
        peek(290, 50)
        os.ftruncate(fd, 9000)
        t.note("grown", os.pread(fd, 60, 290))
        fallocate(fd, PUNCH, 0, PAGE)
        peek(0, 10)
        poke(0, b"after")
        fallocate(fd, ZERO, PAGE, 100)
        peek(PAGE, 10)
        libc.msync(address, 4 * PAGE, 4)
        t.note("read", os.pread(fd, 10, 0))
        with mapped(fd, PAGE, flags=mmap.MAP_PRIVATE) as own:
            ctypes.memmove(own, b"private", 7)
            t.note("read", os.pread(fd, 7, 0))
            os.pwrite(fd, b"shared!", 0)
            t.note("own", ctypes.string_at(own, 7))
        os.unlink(t.path("f"))
        poke(0, b"still there")
        t.note("msync", libc.msync(address, PAGE, 4))
        t.note("read", os.pread(fd, 11, 0))
    t.file("f", content=b"b" * PAGE)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
        for protection in (1, 2, 3):
            for kind in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
                with t.opened("f", flags) as fd:
                    t.do(lambda: mapped(fd, PAGE, protection, kind).__enter__() and None)
    with t.opened(".", os.O_RDONLY) as fd:
        t.do(lambda: mapped(fd, PAGE, 1).__enter__() and None)


# ---- places -------------------------------------------------------------------------------------

def far_offsets(t):
    """Nothing is there, and that is no error."""
    t.file("f", content=b"text")
    with t.opened("f") as fd:
        for offset in (5, 1 << 40, (1 << 43) + 1, (1 << 62) - 1, 1 << 62, (1 << 63) - 4096):
            t.note(f"read at {offset}", tried(os.pread, fd, 100, offset))
        for offset in ((1 << 63) - 1, -1):
            t.note(f"read at {offset}", tried(os.pread, fd, 100, offset))
            t.note(f"write at {offset}", tried(os.pwrite, fd, b"x", offset))


def direct_io(t):
    for size in (0, 1, 511, 512, 4096, 5000, 100_000):
        t.file("f", content=bytes(number % 251 for number in range(size)))
        buffer = mmap.mmap(-1, 1 << 17)
        with t.opened("f", os.O_RDWR | os.O_DIRECT) as fd:
            for offset in (0, 512, 4096, 98304, size // 512 * 512, 1 << 20):
                done = tried(os.preadv, fd, [buffer], offset)
                t.note(f"read at {offset}", buffer[:done] if isinstance(done, int) else done)
            buffer[:4096] = b"w" * 4096
            for offset, length in ((0, 512), (4096, 4096), (1 << 17, 512), (8192, 1024)):
                t.note("written", tried(os.pwritev, fd, [memoryview(buffer)[:length]], offset))
                t.see("f")
        with open(t.path("f"), "rb") as file:
            t.note("content", file.read())
        os.unlink(t.path("f"))


# ---- without a name -----------------------------------------------------------------------------

def unlinked_but_open(t):
    t.file("f", content=b"data" * 1000)
    with t.opened("f") as fd:
        os.unlink(t.path("f"))
        t.file("f", content=b"new")
        os.pwrite(fd, b"Z", 0)
        for call in (lambda: os.fchmod(fd, 0o600), lambda: os.fchown(fd, 1, 2),
                     lambda: os.setxattr(fd, "user.a", b"1"), lambda: os.getxattr(fd, "user.a"),
                     lambda: os.listxattr(fd), lambda: fallocate(fd, 0, 0, 50000),
                     lambda: os.ftruncate(fd, 60000), lambda: fallocate(fd, PUNCH, 0, PAGE),
                     lambda: os.pread(fd, 10, 0), lambda: os.pwrite(fd, b"more", 100),
                     lambda: fcntl.flock(fd, fcntl.LOCK_EX), lambda: os.fsync(fd),
                     lambda: link_open(fd, t.path("back")),
                     lambda: os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), 200)):
            t.do(call)
        found = os.fstat(fd)
        t.note("fstat", (oct(found.st_mode), found.st_uid, found.st_nlink, found.st_size))
    t.see("f")


def unnamed_files(t):
    t.folder("d", 0o777)
    t.folder("locked", 0o555)
    with t.user(ALICE):
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_EXCL,
                      os.O_RDWR | os.O_CREAT):
            t.fd("d", os.O_TMPFILE | flags, 0o600)
        t.fd("locked", os.O_TMPFILE | os.O_RDWR)
        with t.opened("d", os.O_TMPFILE | os.O_RDWR, 0o640) as fd:
            os.write(fd, b"content")
            for name in ("one", "two", "two"):
                t.do(lambda: link_open(fd, t.path(f"d/{name}")))
            t.see("d/one")
            t.unlink("d/one")
            t.unlink("d/two")
            t.note("links", os.fstat(fd).st_nlink)
            t.do(lambda: link_open(fd, t.path("d/three")))
            t.do(os.pread, fd, 10, 0)
    many = [os.open(t.path("d"), os.O_TMPFILE | os.O_RDWR) for _ in range(100)]
    t.note("inodes", len({os.fstat(fd).st_ino for fd in many}))
    t.listdir("d")
    for fd in many:
        os.close(fd)
