"""What goes beyond names and modes: access times, files without names, handles, birth times, and
what Linux programs expect besides."""
import ctypes
import errno
import fcntl
import os
import subprocess
import time

import pytest

from cluster import run
from twin import check, libc, link_open

DAY = 24 * 3600


def write(path, content=b"text"):
    with open(path, "wb") as file:
        file.write(content)


def read(path, flags=os.O_RDONLY):
    descriptor = os.open(path, flags)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def eventually(question):
    """Reads are told to the controller without waiting, by the other client at least."""
    until = time.monotonic() + 10
    while not question():
        assert time.monotonic() < until
        time.sleep(0.01)  # tidy: sleep (polling)


# ---- access times -----------------------------------------------------------------------------

def test_relatime(room):
    one, two = room
    write(f"{one}/file")
    for age in (0, 2 * DAY):
        then = time.time_ns() - age * 1_000_000_000
        os.utime(f"{one}/file", ns=(then - 1000, then - 1000))
        ctime = os.stat(f"{one}/file").st_ctime_ns
        read(f"{one}/file")
        first = os.stat(f"{one}/file")
        assert first.st_atime_ns > then - 1000 and first.st_ctime_ns == ctime
        read(f"{one}/file")
        assert os.stat(f"{one}/file").st_atime_ns == first.st_atime_ns, "noted already"
        # The other client may show an older one from its cache, until something else changes.
        eventually(lambda: os.chmod(f"{one}/file", 0o644) or
                   os.stat(f"{two}/file").st_atime_ns == first.st_atime_ns)
    os.chmod(f"{one}/file", 0o600)
    read(f"{one}/file")
    assert os.stat(f"{one}/file").st_atime_ns > first.st_atime_ns, "it was changed since"


def test_reads_move_access_times(room):
    one, _ = room
    os.mkdir(f"{one}/folder")
    write(f"{one}/folder/file")
    os.symlink("target", f"{one}/link")
    old = (1_000_000_000, 1_000_000_000)

    def moved(path, action):
        os.utime(path, ns=old, follow_symlinks=False)
        action()
        return os.lstat(path).st_atime_ns != old[0]

    folder, file, link = f"{one}/folder", f"{one}/folder/file", f"{one}/link"
    assert moved(folder, lambda: os.listdir(folder))
    assert moved(link, lambda: os.readlink(link))
    assert moved(file, lambda: run("cat", file))
    assert not moved(file, lambda: os.stat(file))
    assert not moved(file, lambda: read(file, os.O_RDONLY | os.O_NOATIME))
    assert not moved(folder, lambda: os.stat(file))


def test_times_stay_when_nothing_happens(room):
    one, two = room
    write(f"{one}/file", b"x" * 100_000)
    shown = os.stat(f"{one}/file")
    time.sleep(2.5)  # tidy: sleep (until the commit by age, which nobody may notice)
    later = os.stat(f"{one}/file")
    assert (shown.st_mtime_ns, shown.st_ctime_ns) == (later.st_mtime_ns, later.st_ctime_ns)
    there = os.stat(f"{two}/file")
    assert (shown.st_mtime_ns, shown.st_ctime_ns) == (there.st_mtime_ns, there.st_ctime_ns)
    os.utime(f"{one}/file", (5, 5))
    write(f"{one}/other")
    done = subprocess.run(["tar", "-cf", "/dev/null", "-C", one, "."], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- files without names ----------------------------------------------------------------------

def test_tmpfile(cluster, room):
    one, two = room
    descriptor = os.open(one, os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(descriptor, b"content")
    assert os.fstat(descriptor).st_nlink == 0 and os.listdir(two) == []
    link_open(descriptor, f"{one}/named")
    assert os.fstat(descriptor).st_nlink == 1
    assert read(f"{two}/named") == b"content"
    os.close(descriptor)
    assert read(f"{one}/named") == b"content"
    descriptor = os.open(one, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o640)
    with pytest.raises(OSError) as caught:
        link_open(descriptor, f"{one}/never")
    assert caught.value.errno == errno.ENOENT
    os.close(descriptor)


def test_removed_but_open(room):
    one, _ = room
    os.mkdir(f"{one}/folder")
    write(f"{one}/file")
    folder, file = os.open(f"{one}/folder", os.O_RDONLY), os.open(f"{one}/file", os.O_RDWR)
    os.rmdir(f"{one}/folder")
    os.unlink(f"{one}/file")
    assert os.fstat(folder).st_nlink == 0 and os.fstat(file).st_nlink == 0
    assert os.listdir(one) == []
    os.pwrite(file, b"more", 0)
    assert os.pread(file, 10, 0) == b"more"
    os.close(folder)
    os.close(file)


# ---- handles ----------------------------------------------------------------------------------

class FileHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128)]


def handle_of(path):
    handle, mount = FileHandle(bytes=128), ctypes.c_int()
    check(libc.name_to_handle_at(-100, os.fsencode(path), ctypes.byref(handle),
                                 ctypes.byref(mount), 0))
    return handle


def open_handle(mount, handle, flags=os.O_RDONLY):
    directory = os.open(mount, os.O_RDONLY)
    try:
        return check(libc.open_by_handle_at(directory, ctypes.byref(handle), flags))
    finally:
        os.close(directory)


def test_handles(cluster, room):
    """The other mount knows nothing of these inodes: as after a restart of an NFS server."""
    one, _ = room
    write(f"{one}/file", b"content")
    os.makedirs(f"{one}/a/b/c")
    file, folder = handle_of(f"{one}/file"), handle_of(f"{one}/a/b/c")
    os.rename(f"{one}/file", f"{one}/a/elsewhere")
    descriptor = open_handle(cluster.ws2, file)
    assert os.read(descriptor, 100) == b"content"
    os.close(descriptor)
    descriptor = open_handle(cluster.ws2, folder, os.O_RDONLY | os.O_DIRECTORY)
    assert os.readlink(f"/proc/self/fd/{descriptor}").endswith("/a/b/c")
    os.close(descriptor)
    os.unlink(f"{one}/a/elsewhere")
    write(f"{one}/a/elsewhere", b"of another file")

    def is_stale():
        try:
            descriptor = open_handle(cluster.ws2, file)
        except OSError as error:
            assert error.errno == errno.ESTALE
            return True
        assert os.read(descriptor, 100) == b"content", "until this host has heard of the removal"
        os.close(descriptor)
        return False

    eventually(is_stale)


def test_handles_that_are_no_more(cluster, room):
    one, two = room
    write(f"{one}/file", b"content")
    os.mkdir(f"{one}/folder")
    file, folder = handle_of(f"{one}/file"), handle_of(f"{one}/folder")
    holder = os.open(f"{one}/file", os.O_RDONLY)
    os.unlink(f"{one}/file")
    os.rmdir(f"{one}/folder")
    descriptor = open_handle(cluster.ws1, file)  # it is open, so it is there
    assert os.read(descriptor, 100) == b"content"
    os.close(descriptor)
    os.close(holder)
    for mount in (cluster.ws1, cluster.ws2):
        for handle in (file, folder):
            eventually(lambda: refused(lambda: open_handle(mount, handle)) == errno.ESTALE)
    write(f"{two}/other")
    other = handle_of(f"{two}/other")
    for position in range(other.bytes):  # any other inode, or generation
        forged = FileHandle.from_buffer_copy(other)
        forged.handle[position] ^= 0x41
        assert refused(lambda: open_handle(cluster.ws2, forged)) in (errno.ESTALE, None)


def refused(call):
    try:
        os.close(call())
    except OSError as error:
        return error.errno
    return None


# ---- and more ---------------------------------------------------------------------------------

def test_birth_time(room):
    one, two = room
    before = time.time() - 1
    write(f"{one}/file")
    os.utime(f"{one}/file", (1, 1))
    birth = [float(run("stat", "-c", "%.9W", f"{mount}/file")) for mount in (one, two)]
    if birth[0] == 0:
        pytest.skip("this kernel does not ask FUSE for birth times (6.6 does)")
    assert birth[0] == birth[1] and before < birth[0] < time.time() + 1
    assert os.stat(f"{one}/file").st_mtime == 1
    os.mknod(f"{one}/device", 0o20600, os.makedev(300, 70000))
    assert run("stat", "-c", "%t:%T", f"{one}/device").strip() == "12c:11170"
    assert float(run("stat", "-c", "%W", one)) > 0


def test_copy_file_range_and_holes(room):
    one, two = room
    write(f"{one}/from", os.urandom(300_000))
    os.truncate(f"{one}/from", 3_000_000)
    with open(f"{one}/from", "rb") as source, open(f"{one}/to", "wb") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), 250_001, 777, 3) == 250_001
        assert os.lseek(source.fileno(), 0, os.SEEK_DATA) == 0
        hole = os.lseek(source.fileno(), 0, os.SEEK_HOLE)
        assert 300_000 <= hole < 3_000_000
        with pytest.raises(OSError) as caught:
            os.lseek(source.fileno(), hole, os.SEEK_DATA)
        assert caught.value.errno == errno.ENXIO
        assert os.lseek(source.fileno(), hole, os.SEEK_HOLE) == hole
    assert read(f"{two}/to")[3:] == read(f"{two}/from")[777:777 + 250_001][:250_001]
    run("cp", "--sparse=always", f"{one}/from", f"{one}/copy")
    run("cmp", f"{one}/from", f"{two}/copy")


def test_direct_io_at_any_alignment(room):
    one, two = room
    model = bytearray(200_000)
    descriptor = os.open(f"{one}/file", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    for number, (offset, length) in enumerate(((0, 512), (511, 1), (4095, 2), (8192, 4096),
                                               (100_001, 77_777), (5, 60_000), (199_999, 1))):
        data = bytes([number + 1]) * length
        assert os.pwrite(descriptor, data, offset) == length
        model[offset:offset + length] = data
    assert os.pread(descriptor, 300_000, 0) == model
    os.close(descriptor)
    assert read(f"{two}/file") == model


def test_append_by_many(room):
    one, two = room
    write(f"{one}/log", b"")
    script = "for i in $(seq 200); do echo $$ $i; done >>log"
    writers = [subprocess.Popen(["sh", "-c", script], cwd=mount) for mount in (one, one, two)]
    assert all(writer.wait() == 0 for writer in writers)
    lines = read(f"{one}/log").decode().splitlines()
    assert len(lines) == len(set(lines)) == 600
    descriptor = os.open(f"{one}/log", os.O_WRONLY | os.O_APPEND)
    size = os.fstat(descriptor).st_size
    os.pwrite(descriptor, b"end", 0)
    assert os.fstat(descriptor).st_size == size + 3
    os.close(descriptor)


def test_locks_within_a_host(room):
    one, _ = room
    write(f"{one}/file")
    with open(f"{one}/file", "r+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.lockf(first, fcntl.LOCK_EX, 10, 5)
        program = f"""
import fcntl
file = open({one + "/file"!r}, "r+")
for lock in (lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB),
             lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 14),
             lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 15)):
    try:
        lock()
        print("got")
    except OSError as error:
        print(error.errno)
"""
        assert run("python3", "-c", program).split() == ["11", "11", "got"]


def test_cookies_outlive_a_controller(cluster, room):
    one, _ = room
    for number in range(3000):
        os.mknod(f"{one}/n{number:05}", 0o100644)
    with os.scandir(one) as listing:
        seen = [next(listing).name for _ in range(100)]
        for number in range(0, 3000, 7):
            if f"n{number:05}" not in seen:
                os.rename(f"{one}/n{number:05}", f"{one}/moved{number:05}")
        os.unlink(f"{one}/{seen[50]}")
        cluster.kill("mdc1")
        cluster.start("mdc1")
        seen += [entry.name for entry in listing]
    stay = {f"n{number:05}" for number in range(3000) if number % 7}
    assert len(seen) == len(set(seen))
    assert stay <= set(seen)


def test_removed_and_held_by_path_only(room):
    one, _ = room
    for make in (lambda path: write(path), os.mkfifo, lambda path: os.symlink("x", path)):
        make(f"{one}/x")
        held = os.open(f"{one}/x", os.O_PATH | os.O_NOFOLLOW)
        before = os.fstat(held)
        os.unlink(f"{one}/x")
        after = os.fstat(held)
        assert (after.st_nlink, after.st_mode) == (0, before.st_mode)
        os.close(held)


def test_unsupported_requests_are_refused(room):
    one, _ = room
    write(f"{one}/file", b"x" * 65536)
    write(f"{one}/other")
    descriptor = os.open(f"{one}/file", os.O_RDWR)
    for mode in (0x08, 0x20):  # FUSE has no FALLOC_FL_COLLAPSE_RANGE and INSERT_RANGE
        assert libc.fallocate(descriptor, mode, ctypes.c_long(0), ctypes.c_long(16384)) == -1
        assert ctypes.get_errno() == errno.EOPNOTSUPP
    assert os.fstat(descriptor).st_size == 65536
    os.close(descriptor)


def test_an_inode_removed_elsewhere_is_stale(room):
    one, two = room
    write(f"{one}/file")
    os.mkdir(f"{one}/folder")
    held = [os.open(f"{one}/{name}", os.O_PATH) for name in ("file", "folder")]
    assert [os.fstat(descriptor).st_nlink for descriptor in held] == [1, 2]
    os.unlink(f"{two}/file")
    os.rmdir(f"{two}/folder")
    for descriptor in held:
        eventually(lambda: refused_stat(descriptor) == errno.ESTALE)
        os.close(descriptor)


def refused_stat(descriptor):
    try:
        os.fstat(descriptor)
    except OSError as error:
        return error.errno
    return None


def test_capabilities_of_programs(room):
    """What is written takes them away at once; what was written before they came does not."""
    one, two = room
    name, value = "security.capability", bytes.fromhex("0100000201000000000000000000000000000000")
    for mount in (one, two):
        write(f"{one}/program", b"old")
        os.setxattr(f"{mount}/program", name, value)  # the write is not told of yet
        os.utime(f"{one}/program", (5, 5))
        os.sync()
        assert os.getxattr(f"{one}/program", name) == os.getxattr(f"{two}/program", name) == value
    with open(f"{one}/program", "r+b", buffering=0) as file:
        file.write(b"new")
        os.utime(file.fileno(), (5, 5))
        for mount in (one, two):
            assert refused(lambda: os.getxattr(f"{mount}/program", name)) == errno.ENODATA
            assert name not in os.listxattr(f"{mount}/program")
