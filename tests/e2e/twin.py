"""Runs one story of system calls in a local reference directory and in the mount, and compares.

A story is a function of a `Twin`: each of its calls is recorded with its errno or its result. The
story runs twice, each time in a process of its own (it may change users), and the two records have
to be the same. What differs for good reason (inode numbers, sizes of directories) is not recorded.
"""
import contextlib
import ctypes
import errno
import os
import pickle
import stat
import time

AT_FDCWD = -100
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
CLOCK_REALTIME_COARSE = 5  # of linux/time.h; Python's time does not name it
ENDED = "the story ended with"
libc = ctypes.CDLL(None, use_errno=True)


class Twin:
    def __init__(self, root):
        self.root = root
        self.record = []
        self._times = {}

    def path(self, name):
        return f"{self.root}/{name}"

    def note(self, what, value):
        self.record.append((what, value))

    # ---- calls: each is recorded with its errno, or "ok" ----

    def do(self, call, *arguments, **options):
        what = f"{getattr(call, '__name__', call)}{arguments}{options or ''}"
        what = what.replace(self.root, "")
        try:
            result = call(*arguments, **options)
        except OSError as error:
            self.note(what, errno.errorcode.get(error.errno, error.errno))
            return None
        if isinstance(result, list):
            result.sort()  # of names, which each file system lists as it likes
        shown = result if isinstance(result, (bytes, str, bool, list)) else "ok"
        self.note(what, shown)
        return result

    def __getattr__(self, name):
        """os.NAME with its first argument below the root: twin.mkdir("d", 0o755)."""
        function = getattr(os, name)

        def call(first, *rest, **options):
            return self.do(function, self.path(first), *rest, **options)
        return call

    def both(self, function, one, two, **options):
        return self.do(function, self.path(one), self.path(two), **options)

    def rename2(self, one, two, flags):
        def renameat2(source, target, flags):
            check(libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target),
                                 flags))
        return self.do(renameat2, self.path(one), self.path(two), flags)

    def file(self, name, mode=0o644, content=b""):
        """A file of exactly this mode, whatever the umask is."""
        descriptor = os.open(self.path(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(descriptor, content)
        os.fchmod(descriptor, mode)
        os.close(descriptor)

    def folder(self, name, mode=0o755):
        os.mkdir(self.path(name))
        os.chmod(self.path(name), mode)

    def fd(self, name, flags, mode=0o644):
        """Opens, records, and returns the descriptor (None after an error)."""
        return self.do(os.open, self.path(name), flags, mode)

    @contextlib.contextmanager
    def opened(self, name, flags=os.O_RDWR, mode=0o644):
        descriptor = os.open(self.path(name), flags, mode)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    # ---- questions ----

    def see(self, name):
        """Records what lstat(2) says that must not depend on the file system."""
        try:
            found = os.lstat(self.path(name))
        except OSError as error:
            self.note(f"lstat({name})", errno.errorcode[error.errno])
            return
        size = None if stat.S_ISDIR(found.st_mode) else found.st_size
        self.note(f"lstat({name})", (oct(found.st_mode), found.st_uid, found.st_gid,
                                     found.st_nlink, size, found.st_rdev))

    def marks(self, *names):
        """Remembers the times of these, and lets the clock that file systems use go on."""
        for name in names:
            found = os.lstat(self.path(name))
            self._times[name] = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        until = time.clock_gettime_ns(CLOCK_REALTIME_COARSE) + 1
        while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= until:
            time.sleep(0.001)  # tidy: sleep (the clock that file systems read has to move on)
        time.sleep(0.005)  # tidy: sleep (and by more than one of its ticks)

    def changed(self, *names):
        """Records which times have moved since marks()."""
        for name in names:
            found = os.lstat(self.path(name))
            times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
            moved = "".join(letter for letter, now, then in zip("amc", times, self._times[name])
                            if now != then)
            self.note(f"moved({name})", moved)

    # ---- users ----

    @contextlib.contextmanager
    def user(self, uid, gid=None, groups=()):
        gid = uid if gid is None else gid
        self.note("as", (uid, gid, tuple(groups)))
        os.setgroups(list(groups))
        os.setegid(gid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups([])
            self.note("as", "root")


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def link_open(descriptor, path):
    """linkat(2) of an open file (os.link does not follow)."""
    check(libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % descriptor, AT_FDCWD, os.fsencode(path),
                      0x400))


def tell(story, root):
    """The story's record, made in a process of its own."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.setgroups([])
        os.umask(0o022)
        twin = Twin(root)
        try:
            story(twin)
            outcome = twin.record
        except BaseException as error:  # noqa: B902: the parent shows it
            outcome = twin.record + [(ENDED, repr(error).replace(root, ""))]
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        outcome = pickle.load(pipe)
    os.waitpid(child, 0)
    assert not outcome or outcome[-1][0] != ENDED, f"the story broke off in {root}: {outcome[-1]}"
    return outcome


def differences(local, mounted):
    lines = []
    for number in range(max(len(local), len(mounted))):
        one = local[number] if number < len(local) else None
        two = mounted[number] if number < len(mounted) else None
        if one != two:
            lines.append(f"  local {one}\n  mount {two}")
    return "\n".join(lines)
