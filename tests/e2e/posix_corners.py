"""Stories of what suites look for in the corners: what was removed, slashes at the end, limits,
O_PATH, seeking."""
import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import shutil
import signal

from posix_kinds import ALICE, BOB, KINDS, make, tried
from twin import EXCHANGE, NOREPLACE, check, libc

APPEND = 16  # RWF_APPEND


@contextlib.contextmanager
def inside(t, name):
    here = os.open(".", os.O_RDONLY)
    os.chdir(t.path(name))
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


# ---- what was removed ---------------------------------------------------------------------------

def removed_working_directory(t):
    t.folder("up")
    t.folder("up/d")
    for gone in ("up/d", "up"):
        with inside(t, gone):
            os.rmdir(t.path(gone))
            t.do(lambda: os.stat(".") and None)
            t.do(lambda: os.lstat(".") and None)
            t.note("nlink", nlink("."))
            t.do(os.getcwd)
            for call in (os.listdir, os.chdir, os.utime, os.statvfs, os.listxattr):
                t.do(call, ".")
            for call in (os.stat, os.listdir, os.chdir):
                if gone == "up/d":
                    t.do(call, "./.")
            t.do(os.chmod, ".", 0o700)
            t.do(os.chown, ".", 5, 6)
            t.do(os.access, ".", os.R_OK)
            for call, rest in ((os.setxattr, ("user.a", b"1")), (os.getxattr, ("user.a",)),
                               (os.setxattr, ("user.a", b"2", os.XATTR_CREATE)),
                               (os.listxattr, ()), (os.removexattr, ("user.a",)),
                               (os.removexattr, ("user.a",)), (os.listxattr, ())):
                t.do(call, ".", *rest)
            t.do(os.open, ".", os.O_TMPFILE | os.O_RDWR)
            t.do(os.open, ".", os.O_RDONLY)
            t.do(os.open, ".", os.O_RDONLY | os.O_DIRECTORY)
            t.do(os.open, ".", os.O_RDONLY | os.O_PATH)
            t.do(os.open, "x", os.O_CREAT | os.O_WRONLY)
            t.do(os.mkdir, "x")
            t.do(os.symlink, "a", "x")
            t.do(os.mkfifo, "x")
            t.do(os.link, t.path("."), "x")
            t.do(os.rmdir, ".")
            t.do(os.rmdir, t.path(gone))
            t.do(os.stat, "x")
            t.do(os.stat, "../..")


def nlink(path):
    try:
        return os.stat(path).st_nlink
    except OSError as error:
        return errno.errorcode[error.errno]


def replaced_working_directory(t):
    t.folder("d")
    t.folder("e")
    t.file("e/f")
    with inside(t, "d"):
        t.both(os.rename, "e", "d")
        t.note("nlink", nlink("."))
        t.do(os.getcwd)
        t.do(os.listdir, ".")
        t.do(os.stat, "f")
        t.do(os.stat, "..")
    with inside(t, "d"):
        t.both(os.rename, "d", "e")
        t.do(lambda: os.getcwd().replace(t.root, ""))
        t.do(os.listdir, ".")


def removed_files(t):
    t.file("f", content=b"text" * 1000)
    t.folder("d")
    with t.opened("f") as fd, t.opened("d", os.O_RDONLY) as folder:
        t.marks("f")
        before = os.fstat(fd).st_ctime_ns
        os.unlink(t.path("f"))
        os.rmdir(t.path("d"))
        t.note("unlink moves ctime", os.fstat(fd).st_ctime_ns != before)
        for path in (f"/proc/self/fd/{fd}", f"/proc/self/fd/{folder}"):
            t.do(lambda path=path: os.stat(path) and None)
            t.do(lambda path=path: os.chmod(path, 0o600))
            t.do(lambda path=path: os.chown(path, 7, 8))
            t.do(lambda path=path: os.utime(path, (1, 2)))
            t.do(lambda path=path: os.setxattr(path, "trusted.x", b"1"))
            t.do(lambda path=path: os.getxattr(path, "trusted.x"))
            t.do(lambda path=path: os.listxattr(path))
            t.do(lambda path=path: os.close(os.open(path, os.O_RDONLY)))
        t.do(lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_TRUNC)))
        t.note("size", os.fstat(fd).st_size)
        t.do(os.ftruncate, fd, 10)
        t.do(os.pwrite, fd, b"more", 5)
        t.do(os.pread, fd, 100, 0)
        t.do(os.fsync, fd)
        t.do(os.fsync, folder)
        t.note("mode", oct(os.fstat(fd).st_mode))
        t.note("owner", os.fstat(folder).st_uid)
        t.do(lambda: os.stat(".", dir_fd=folder) and None)
        t.do(lambda: os.stat("..", dir_fd=folder) and None)
        t.do(lambda: os.open("x", os.O_CREAT | os.O_RDWR, dir_fd=folder))
        t.do(lambda: os.scandir(folder).close())
    t.file("f")
    t.file("g")
    with t.opened("g") as fd:
        before = os.fstat(fd).st_ctime_ns
        t.marks("f")
        os.rename(t.path("f"), t.path("g"))
        t.note("replaced", (os.fstat(fd).st_nlink, os.fstat(fd).st_ctime_ns != before))


# ---- names --------------------------------------------------------------------------------------

def slashes_at_the_end(t):
    def fresh():
        shutil.rmtree(t.path("t"), ignore_errors=True)
        t.folder("t")
        t.folder("t/d")
        t.folder("t/full")
        t.file("t/full/x")
        t.file("t/f")
        os.symlink("d", t.path("t/l"))
        os.symlink("f", t.path("t/lf"))
        os.symlink("new", t.path("t/dangling"))

    names = ("t/d/", "t/f/", "t/l/", "t/lf/", "t/dangling/", "t/absent/", "t/d//", "t/l/.")
    for name in names:
        fresh()
        for call in (os.mkdir, os.mkfifo, os.stat, os.lstat, os.readlink, os.listdir, os.unlink,
                     os.rmdir):
            t.do(call, t.path(name))
        for flags in (os.O_RDONLY, os.O_CREAT | os.O_RDWR, os.O_CREAT | os.O_EXCL | os.O_RDWR,
                      os.O_RDONLY | os.O_NOFOLLOW, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW):
            t.fd(name, flags)
        for other in names + ("t/new", "t/full"):
            fresh()
            t.both(os.rename, name, other)
            fresh()
            t.both(os.rename, other, name)
            fresh()
            t.rename2(name, other, NOREPLACE)
            t.rename2(name, other, EXCHANGE)
            fresh()
            t.do(os.link, t.path(name), t.path(other), follow_symlinks=False)
            fresh()
            t.do(os.symlink, "target", t.path(name))
        for left in ("t", "t/d", "t/f", "t/l", "t/new"):
            t.see(left)


def dots(t):
    t.folder("d")
    t.folder("d/e")
    t.file("f")
    for name in (".", "..", "d/.", "d/..", "d/e/..", "d/e/../..", "/"):
        if name == "..":
            continue  # of the test's own directory
        for call in (os.mkdir, os.rmdir, os.unlink, os.mkfifo):
            if name != "/":
                t.do(call, t.path(name))
        if name != "/":
            t.do(os.symlink, "x", t.path(name))
            t.both(os.link, "f", name)
            t.both(os.rename, "d", name)
            t.both(os.rename, name, "x")
            t.both(os.rename, "f", name)
            t.both(os.rename, name, "f")
    t.see("d")
    t.see("d/e")


def moving_directories(t):
    """Moving one to another parent changes its "..": that takes the right to write to it."""
    for mode in (0o777, 0o755, 0o555, 0o000):
        for owner in (ALICE, BOB):
            t.folder("from", 0o777)
            t.folder("to", 0o777)
            t.folder("from/d")
            os.chown(t.path("from/d"), owner, owner)
            os.chmod(t.path("from/d"), mode)
            with t.user(ALICE):
                t.both(os.rename, "from/d", "from/e")
                t.both(os.rename, "from/e", "to/d")
                t.mkdir("to/x")
                t.rename2("to/x", "from/e", EXCHANGE)
                t.rename2("to/d", "from/y", EXCHANGE)
            t.do(shutil.rmtree, t.path("from"))
            t.do(shutil.rmtree, t.path("to"))


# ---- descriptors --------------------------------------------------------------------------------

def path_descriptors(t):
    for kind in KINDS:
        make(t, kind, "x", 0o640)
        fd = os.open(t.path("x"), os.O_PATH | os.O_NOFOLLOW)
        for call, arguments in ((os.read, (1,)), (os.write, (b"x",)), (os.fchmod, (0o600,)),
                                (os.fchown, (1, 1)), (os.ftruncate, (0,)), (os.fsync, ()),
                                (os.listdir, ()), (os.fchdir, ()), (os.getxattr, ("user.x",))):
            if call is os.listdir and kind == "dir" or call is os.fchdir and kind == "dir":
                continue
            t.do(call, fd, *arguments)
        t.note("mode", oct(os.fstat(fd).st_mode))
        t.do(lambda: os.readlink("", dir_fd=fd))
        t.do(lambda: os.chmod(f"/proc/self/fd/{fd}", 0o604) if kind != "symlink" else None)
        os.close(fd)
        t.see("x")
        with t.user(BOB):
            t.fd("x", os.O_PATH | os.O_NOFOLLOW)
        os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))


def odd_flags(t):
    t.file("f", 0o666, b"text")
    t.folder("d", 0o777)
    for name in ("f", "d", "absent"):
        for flags in (3, os.O_EXCL, os.O_DIRECT | os.O_RDWR, os.O_RDONLY | os.O_TRUNC,
                      os.O_WRONLY | os.O_DIRECTORY, os.O_TMPFILE | os.O_RDONLY,
                      os.O_TMPFILE | os.O_RDWR, os.O_TMPFILE | os.O_WRONLY | os.O_EXCL,
                      os.O_CREAT | os.O_DIRECTORY, os.O_CREAT | os.O_TRUNC | os.O_RDONLY,
                      os.O_APPEND | os.O_RDONLY, os.O_NOATIME, os.O_SYNC | os.O_RDWR,
                      os.O_PATH | os.O_CREAT | os.O_TRUNC):
            for user in (0, BOB):
                with t.user(user):
                    t.fd(name, flags)
                t.see(name)
    t.do(os.truncate, t.path("d"), 0)
    with t.opened("f", 3) as fd:
        t.do(os.read, fd, 1)
        t.do(os.write, fd, b"x")
    with t.opened("d", os.O_RDONLY) as fd:
        t.do(os.read, fd, 10)
        t.do(os.write, fd, b"x")
        t.do(os.pread, fd, 10, 0)
        t.do(os.ftruncate, fd, 0)
        t.do(os.fsync, fd)
        t.do(os.fdatasync, fd)


def seeking(t):
    block = 1 << 20
    t.file("empty")
    t.file("small", content=b"text")
    t.file("holes")
    os.truncate(t.path("holes"), 3 * block)
    with t.opened("holes") as fd:
        os.pwrite(fd, b"x" * block, block)
        os.fsync(fd)
    for name in ("empty", "small", "holes"):
        with t.opened(name) as fd:
            size = os.fstat(fd).st_size
            for whence in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE, 9):
                for offset in (-size - 1, -1, 0, 1, size - 1, size, size + 1, block, block + 5,
                               2 * block):
                    os.lseek(fd, 0, os.SEEK_SET)
                    try:
                        t.note(f"{name} {whence} {offset}", os.lseek(fd, offset, whence))
                    except OSError as error:
                        t.note(f"{name} {whence} {offset}", errno.errorcode[error.errno])
    with t.opened(".", os.O_RDONLY) as fd:
        for whence in (os.SEEK_DATA, os.SEEK_HOLE, 9):
            t.do(os.lseek, fd, -1, whence)


def appending(t):
    t.file("f", content=b"a" * 5000)
    for flags in (0, os.O_DIRECT, os.O_SYNC, os.O_DSYNC):
        fd = os.open(t.path("f"), os.O_WRONLY | os.O_APPEND | flags & ~os.O_DIRECT)
        other = os.open(t.path("f"), os.O_RDWR)
        os.write(fd, b"b" * 100)
        t.note("position", os.lseek(fd, 0, os.SEEK_CUR))
        os.pwrite(other, b"c" * 10, 20000)
        os.pwrite(fd, b"d", 0)
        t.note("size", os.fstat(fd).st_size)
        os.ftruncate(other, 10)
        os.write(fd, b"e")
        os.pwritev(other, [b"f", b"g"], 0, APPEND)
        t.note("position", os.lseek(other, 0, os.SEEK_CUR))
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        os.pwrite(fd, b"h", 1)
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
        os.write(fd, b"i")
        os.close(fd)
        t.note("content", os.pread(other, 100000, 0))
        os.close(other)
    with t.opened("f") as fd:
        t.do(lambda: os.preadv(fd, [bytearray(5)], -1) and None)
        t.do(lambda: os.pwritev(fd, [b"x"], 3, 1 << 20) and None)
        t.do(lambda: os.pwrite(fd, b"x", -1))
        t.do(lambda: os.pread(fd, 1, -1))


def copying(t):
    data = bytes(range(256)) * 400
    t.file("a", content=data)
    t.file("b", content=b"old" * 10)
    t.folder("d")
    with t.opened("a") as a, t.opened("b") as b, t.opened("a", os.O_RDONLY) as reading, \
            t.opened("b", os.O_WRONLY | os.O_APPEND) as appended, \
            t.opened("d", os.O_RDONLY) as folder:
        for source, target, count, at, to in (
                (a, b, 1000, 5, 7), (a, b, 0, 0, 0), (a, b, 100, len(data), 0),
                (a, b, 100, len(data) + 5, 0), (a, b, 10 ** 6, 50000, 100),
                (a, a, 4096, 0, 60000), (a, a, 4096, 0, 4096), (a, a, 4096, 0, 100),
                (a, reading, 10, 0, 0), (a, appended, 10, 0, 0), (a, folder, 10, 0, 0),
                (folder, b, 10, 0, 0), (a, b, 10, -1, 0), (a, b, 10, 0, (1 << 63) - 5)):
            try:
                done = os.copy_file_range(source, target, count, at, to)
            except OSError as error:
                done = errno.errorcode[error.errno]
            except OverflowError:
                done = "overflow"
            t.note(f"copy {count} from {at} to {to}", done)
            for name in ("a", "b"):
                t.see(name)
                with open(t.path(name), "rb") as file:
                    t.note(name, file.read())


# ---- limits -------------------------------------------------------------------------------------

def limits_of_a_process(t):
    """RLIMIT_FSIZE: writes end there; what begins there, or grows over it, is EFBIG."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    t.file("f", content=b"x" * 1000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    for flags in (0, os.O_APPEND):
        with t.opened("f", os.O_RDWR | flags) as fd:
            t.note("write", tried(os.write, fd, b"y" * 4500))
            t.note("write", tried(os.write, fd, b"y" * 4500))
            t.note("pwrite", tried(os.pwrite, fd, b"y" * 100, 4950))
            t.note("pwrite", tried(os.pwrite, fd, b"y", 5000))
            t.do(os.ftruncate, fd, 5001)
            t.do(os.ftruncate, fd, 5000)
            t.do(os.posix_fallocate, fd, 0, 5001)
            t.do(os.posix_fallocate, fd, 0, 5000)
            t.do(lambda: check(libc.fallocate(fd, 1, ctypes.c_long(0), ctypes.c_long(9000))))
        t.truncate("f", 6000)
        t.see("f")
        t.truncate("f", 900)


# ---- and more ----------------------------------------------------------------------------------

def directories_read(t):
    t.folder("d")
    for number in range(50):
        t.file(f"d/{number}")
    with t.opened("d", os.O_RDONLY) as fd:
        t.note("names", sorted(os.listdir(fd)))
        t.file("d/new")
        os.unlink(t.path("d/7"))
        os.lseek(fd, 0, os.SEEK_SET)
        t.note("again", sorted(os.listdir(fd)))
        t.do(lambda: fcntl.ioctl(fd, 0xdead, b"") and None)
    with t.opened("d/new") as fd:
        t.do(lambda: os.listdir(fd))
        t.do(lambda: fcntl.ioctl(fd, 0xdead, b"") and None)
    for kind in KINDS:
        make(t, kind, "d/" + kind)
    types = [(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink(),
              entry.is_file(follow_symlinks=False)) for entry in os.scandir(t.path("d"))]
    t.note("types", sorted(types))


def empty_requests(t):
    """Calls that change nothing leave the times alone."""
    t.file("f", content=b"text")
    with t.opened("f") as fd:
        for call in (lambda: os.write(fd, b""), lambda: os.read(fd, 0), lambda: os.fsync(fd),
                     lambda: os.fchown(fd, -1, -1), lambda: os.rename(t.path("f"), t.path("f")),
                     lambda: tried(os.link, t.path("f"), t.path("f")),
                     lambda: tried(os.mkdir, t.path("f")), lambda: os.listxattr(fd),
                     lambda: os.lseek(fd, 0, os.SEEK_END), lambda: os.access(t.path("f"), 4)):
            t.marks("f", ".")
            call()
            t.changed("f", ".")
