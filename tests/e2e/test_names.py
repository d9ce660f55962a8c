"""Names, links, attributes: what POSIX promises, done on one client and seen on the other."""
import ctypes
import errno
import os
import stat

import pytest

NOREPLACE, EXCHANGE = 1, 2
AT_FDCWD = -100
libc = ctypes.CDLL(None, use_errno=True)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def rename2(source, target, flags):
    if libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2", source)


def fails(error, call, *arguments, **options):
    with pytest.raises(OSError) as caught:
        call(*arguments, **options)
    assert caught.value.errno == error, os.strerror(caught.value.errno)


def test_a_new_name_is_seen_by_the_other_at_once(room):
    one, two = room
    for number in range(50):
        write(f"{one}/file{number}", f"text {number}")
        assert read(f"{two}/file{number}") == f"text {number}"
        write(f"{two}/file{number}", "shorter")
        assert read(f"{one}/file{number}") == "shorter"
    os.mkdir(f"{one}/folder", 0o750)
    assert stat.S_IMODE(os.stat(f"{two}/folder").st_mode) == 0o750
    os.rmdir(f"{two}/folder")
    assert not os.path.exists(f"{one}/folder")


def test_errors(room):
    one, two = room
    write(f"{one}/file", "")
    os.makedirs(f"{one}/folder/inner")
    fails(errno.EEXIST, os.mkdir, f"{two}/folder")
    fails(errno.EEXIST, os.open, f"{two}/file", os.O_CREAT | os.O_EXCL)
    fails(errno.ENOENT, os.stat, f"{two}/absent")
    fails(errno.ENOENT, os.unlink, f"{two}/absent")
    fails(errno.ENOTDIR, os.stat, f"{two}/file/below")
    fails(errno.ENOTDIR, os.rmdir, f"{two}/file")
    fails(errno.EISDIR, os.unlink, f"{two}/folder")
    fails(errno.ENOTEMPTY, os.rmdir, f"{two}/folder")
    fails(errno.EISDIR, os.rename, f"{two}/file", f"{two}/folder")
    fails(errno.ENOTDIR, os.rename, f"{two}/folder", f"{two}/file")
    fails(errno.EINVAL, os.rename, f"{two}/folder", f"{two}/folder/inner/below")
    fails(errno.ENAMETOOLONG, os.mkdir, f"{two}/" + "n" * 256)
    os.mkdir(f"{two}/" + "n" * 255)


def test_rename(room):
    one, two = room
    write(f"{one}/a", "a")
    write(f"{one}/b", "b")
    os.rename(f"{one}/a", f"{one}/b")
    assert sorted(os.listdir(two)) == ["b"] and read(f"{two}/b") == "a"
    write(f"{two}/c", "c")
    fails(errno.EEXIST, rename2, f"{one}/b", f"{one}/c", NOREPLACE)
    rename2(f"{one}/b", f"{one}/d", NOREPLACE)
    rename2(f"{one}/c", f"{one}/d", EXCHANGE)
    assert (read(f"{two}/c"), read(f"{two}/d")) == ("a", "c")
    os.makedirs(f"{one}/deep/folder")
    rename2(f"{one}/c", f"{one}/deep/folder", EXCHANGE)
    assert os.path.isdir(f"{two}/c") and read(f"{two}/deep/folder") == "a"
    os.rename(f"{one}/deep/folder", f"{one}/c/file")
    assert os.listdir(f"{two}/c") == ["file"]
    fails(errno.ENOENT, rename2, f"{one}/c", f"{one}/absent", EXCHANGE)
    # Onto another name of the same file: POSIX says, nothing happens.
    os.link(f"{one}/d", f"{one}/e")
    os.rename(f"{one}/d", f"{one}/e")
    assert read(f"{two}/d") == read(f"{two}/e") == "c"


def test_links(room):
    one, two = room
    write(f"{one}/file", "text")
    os.link(f"{one}/file", f"{one}/name")
    assert os.stat(f"{one}/file").st_nlink == os.stat(f"{two}/name").st_nlink == 2
    assert os.path.samestat(os.stat(f"{one}/file"), os.stat(f"{one}/name"))
    write(f"{two}/name", "new text")
    assert read(f"{one}/file") == "new text"
    os.unlink(f"{one}/file")
    assert os.stat(f"{two}/name").st_nlink == 1
    fails(errno.EPERM, os.link, one, f"{one}/folder")
    target = "../" + "x" * 1000
    os.symlink(target, f"{one}/symlink")
    assert os.readlink(f"{two}/symlink") == target
    assert os.lstat(f"{two}/symlink").st_size == len(target)
    os.symlink("name", f"{one}/good")
    assert read(f"{two}/good") == "new text"
    fails(errno.ELOOP, os.open, f"{two}/good", os.O_RDONLY | os.O_NOFOLLOW)


def test_folder_link_counts(room):
    one, two = room
    for name in ("a", "b", "b/c"):
        os.mkdir(f"{one}/{name}")
    assert os.stat(two).st_nlink == 4
    os.rename(f"{one}/b/c", f"{one}/c")
    assert (os.stat(two).st_nlink, os.stat(f"{two}/b").st_nlink) == (5, 2)
    assert os.path.samestat(os.stat(f"{two}/c/.."), os.stat(two))


def test_special_files(room):
    one, two = room
    os.mkfifo(f"{one}/fifo", 0o600)
    os.mknod(f"{one}/zero", 0o20666, os.makedev(1, 5))
    os.mknod(f"{one}/disk", 0o60600, os.makedev(259, 70000))
    os.mknod(f"{one}/plain", 0o100644)
    os.mknod(f"{one}/socket", stat.S_IFSOCK | 0o600)
    assert stat.S_ISFIFO(os.stat(f"{two}/fifo").st_mode)
    assert stat.S_ISSOCK(os.stat(f"{two}/socket").st_mode)
    assert os.stat(f"{two}/zero").st_rdev == os.makedev(1, 5)
    assert os.stat(f"{two}/disk").st_rdev == os.makedev(259, 70000)
    assert stat.S_ISREG(os.stat(f"{two}/plain").st_mode)


def test_attributes(room):
    one, two = room
    write(f"{one}/file", "text")
    os.chmod(f"{one}/file", 0o4711)
    os.chown(f"{one}/file", 4_000_000_000, 77)
    os.chmod(f"{one}/file", 0o4711)  # chown took the set-uid bit, as POSIX asks
    times = (-1_234_567_890_987_654_321, 9_000_000_000_111_222_333)
    os.utime(f"{one}/file", ns=times)
    found = os.stat(f"{two}/file")
    assert stat.S_IMODE(found.st_mode) == 0o4711
    assert (found.st_uid, found.st_gid) == (4_000_000_000, 77)
    assert (found.st_atime_ns, found.st_mtime_ns) == times
    before = found.st_ctime_ns
    os.chmod(f"{two}/file", 0o644)
    assert os.stat(f"{one}/file").st_ctime_ns > before
    with open(f"{one}/file", "a") as file:
        file.write("more")
    found = os.stat(f"{two}/file")
    assert found.st_mtime_ns != times[1] and found.st_size == 8
    folder = os.stat(two).st_mtime_ns
    os.unlink(f"{one}/file")
    assert os.stat(two).st_mtime_ns > folder


def test_xattrs(room):
    one, two = room
    write(f"{one}/file", "")
    for path in (f"{one}/file", one):
        os.setxattr(path, "user.small", b"\x00\xff")
        os.setxattr(path, "user.empty", b"")
        os.setxattr(path, "trusted.big", b"v" * 60000)
    for path in (f"{two}/file", two):
        assert set(os.listxattr(path)) >= {"user.small", "user.empty", "trusted.big"}
        assert os.getxattr(path, "user.small") == b"\x00\xff"
        assert os.getxattr(path, "user.empty") == b""
        assert os.getxattr(path, "trusted.big") == b"v" * 60000
        fails(errno.EEXIST, os.setxattr, path, "user.small", b"", os.XATTR_CREATE)
        fails(errno.ENODATA, os.setxattr, path, "user.none", b"", os.XATTR_REPLACE)
        fails(errno.ENODATA, os.getxattr, path, "user.none")
        os.setxattr(path, "user.small", b"new", os.XATTR_REPLACE)
        os.removexattr(path, "user.empty")
        fails(errno.ENODATA, os.removexattr, path, "user.empty")
    assert os.getxattr(f"{one}/file", "user.small") == b"new"
    assert "user.empty" not in os.listxattr(one)


def test_listing_is_stable_while_names_come_and_go(room):
    one, two = room
    for number in range(1000):
        write(f"{one}/keep{number:04}", "")
    seen, deleted = [], 0
    with os.scandir(two) as listing:
        for entry in listing:
            seen.append(entry.name)
            if not entry.name.startswith("keep"):
                continue  # a new one: it may be listed or not, but only once
            write(f"{one}/new{len(seen):04}", "")
            if len(seen) % 3 == 0:
                os.unlink(f"{one}/{entry.name}")
                deleted += 1
    assert len(seen) == len(set(seen)), "a name was listed twice"
    assert {f"keep{number:04}" for number in range(1000)} <= set(seen)
    left = os.listdir(one)
    assert sum(name.startswith("keep") for name in left) == 1000 - deleted
    assert sorted(left) == sorted(os.listdir(two))


def test_renaming_while_listing_ends(room):
    one, two = room
    names = {f"n{number:04}" for number in range(1500)}  # more than one reply holds
    for name in names:
        os.mknod(f"{one}/{name}")
    seen = []
    with os.scandir(two) as listing:
        for entry in listing:
            seen.append(entry.name)
            assert len(seen) <= 2 * len(names), "there is no end"
            os.rename(f"{two}/{entry.name}", f"{two}/moved")
            os.rename(f"{two}/moved", f"{two}/{entry.name}")
    assert set(seen) == names
    folder = os.open(two, os.O_RDONLY)
    assert set(os.listdir(folder)) == names
    os.mknod(f"{one}/late")
    os.lseek(folder, 0, os.SEEK_SET)
    assert set(os.listdir(folder)) == names | {"late"}
    os.close(folder)


def test_statfs(cluster, room):
    one, two = room
    status = os.statvfs(one)
    assert status.f_namemax == 255
    assert 30 << 30 < status.f_blocks * status.f_frsize <= 32 << 30
    with open(f"{one}/file", "wb") as file:
        file.write(b"x" * (64 << 20))
        os.fsync(file.fileno())
    free = os.statvfs(two).f_bfree * status.f_frsize
    assert status.f_bfree * status.f_frsize - free >= 64 << 20
    assert os.stat(f"{two}/file").st_blocks * 512 >= 64 << 20


def test_other_users_are_held_to_modes(room):
    one, two = room
    os.chmod(one, 0o755)
    write(f"{one}/secret", "x")
    os.chmod(f"{one}/secret", 0o600)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(12345, 12345, 12345)
            os.setresuid(12345, 12345, 12345)
            fails(errno.EACCES, os.open, f"{two}/secret", os.O_RDONLY)
            fails(errno.EACCES, os.mkdir, f"{two}/folder")
            fails(errno.EPERM, os.chmod, f"{two}/secret", 0o777)
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
