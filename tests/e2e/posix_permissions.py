"""Stories of who may do what, and of what becomes of modes and set-id bits."""
import os
import shutil
import stat

from posix_kinds import ALICE, BOB, KINDS, TYPES, make
from twin import EXCHANGE


# ---- permissions ------------------------------------------------------------------------------

def search_and_write_permission(t):
    for mode in (0o777, 0o755, 0o711, 0o733, 0o700, 0o000):
        t.folder("d")
        t.file("d/f", 0o666)
        t.file("d/g", 0o666)
        os.mkdir(t.path("d/sub"))
        os.chown(t.path("d/sub"), ALICE, ALICE)
        os.chmod(t.path("d"), mode)
        with t.user(ALICE):
            t.listdir("d")
            t.stat("d/f")
            t.fd("d/f", os.O_RDWR)
            t.fd("d/new", os.O_CREAT | os.O_WRONLY)
            t.mkdir("d/x")
            t.mkfifo("d/p")
            t.do(os.symlink, "t", t.path("d/l"))
            t.both(os.link, "d/f", "d/k")
            t.both(os.rename, "d/f", "d/h")
            t.both(os.rename, "d/sub", "d/sub2")
            t.unlink("d/g")
            t.rmdir("d/sub2")
            t.truncate("d/h", 0)
        t.do(shutil.rmtree, t.path("d"))


def file_permission(t):
    for mode in range(0, 0o1000, 0o111):
        for uid, gid, groups in ((ALICE, ALICE, ()), (BOB, ALICE, ()), (BOB, BOB, (ALICE,)),
                                 (BOB, BOB, ())):
            make(t, "file", "f", mode)
            os.chown(t.path("f"), ALICE, ALICE)
            with t.user(uid, gid, groups):
                for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC,
                              os.O_RDONLY | os.O_NOATIME):
                    t.fd("f", flags)
                t.truncate("f", 1)
                t.chmod("f", 0o600)
                t.chown("f", uid, -1)
                t.utime("f")
                t.utime("f", (1, 1))
            t.see("f")
            os.unlink(t.path("f"))


def sticky_directories(t):
    for owner in (0, ALICE, BOB):
        for kind in ("file", "dir", "symlink", "fifo"):
            t.folder("s", 0o1777)
            os.chown(t.path("s"), owner, owner)
            t.folder("open", 0o777)
            for name, uid in (("alice", ALICE), ("bob", BOB)):
                make(t, kind, f"s/{name}", 0o777)
                os.lchown(t.path(f"s/{name}"), uid, uid)
                make(t, kind, f"open/{name}", 0o777)
            with t.user(ALICE):
                t.both(os.rename, "s/bob", "s/x")
                t.both(os.rename, "s/bob", "open/x")
                t.both(os.rename, "open/alice", "s/bob")
                t.both(os.rename, "s/alice", "s/mine")
                t.rename2("s/mine", "s/bob", EXCHANGE)
                t.unlink("s/bob")
                t.rmdir("s/bob")
                t.unlink("s/mine")
                t.rmdir("s/mine")
            t.do(shutil.rmtree, t.path("s"))
            t.do(shutil.rmtree, t.path("open"))


def chmod_rules(t):
    for kind in KINDS:
        make(t, kind, "x")
        if kind != "symlink":
            for mode in (0o7777, 0o111, 0o1000, 0o2755, 0o4755, 0o644):
                t.chmod("x", mode)
                t.see("x")
            os.chown(t.path("x"), ALICE, BOB)
            for user in ((ALICE, ALICE), (ALICE, ALICE, (BOB,)), (BOB, BOB)):
                with t.user(*user):
                    t.chmod("x", 0o6755)
                t.see("x")
            t.marks("x")
            t.chmod("x", 0o600)
            t.changed("x")
        os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))


def chown_rules(t):
    for kind in KINDS:
        for mode in (0o6777, 0o6755, 0o2745, 0o4700, 0o2644):
            for uid, gid in ((-1, -1), (ALICE, -1), (-1, BOB), (ALICE, BOB), (BOB, 12345)):
                make(t, kind, "x", mode)
                os.lchown(t.path("x"), ALICE, ALICE)
                if kind != "symlink":
                    os.chmod(t.path("x"), mode)
                t.lchown("x", uid, gid)
                t.see("x")
                if kind != "symlink":
                    os.chmod(t.path("x"), mode)
                os.lchown(t.path("x"), ALICE, ALICE)
                if kind != "symlink":
                    os.chmod(t.path("x"), mode)
                with t.user(ALICE, ALICE, (BOB,)):
                    t.lchown("x", uid, gid)
                t.see("x")
                os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))
    t.file("f")
    t.marks("f")
    t.chown("f", 7, 8)
    t.changed("f")
    t.marks("f")
    t.chown("f", -1, -1)
    t.changed("f")


def chown_by_owners(t):
    """An owner outside the group takes set-group-id away also where nobody may execute."""
    for kind in ("file", "dir", "fifo"):
        for mode in (0o6777, 0o2666, 0o6666, 0o2711):
            for user in ((ALICE, ALICE), (ALICE, ALICE, (4242,)), (ALICE, 4242), (0, 0),
                         (BOB, 4242)):
                for uid, gid in ((ALICE, -1), (-1, 4242), (-1, ALICE), (BOB, -1), (-1, 77)):
                    make(t, kind, "x")
                    os.chown(t.path("x"), ALICE, ALICE)
                    os.chmod(t.path("x"), mode)
                    with t.user(*user):
                        t.chown("x", uid, gid)
                    t.see("x")
                    os.rmdir(t.path("x")) if kind == "dir" else os.unlink(t.path("x"))


def set_group_id_directories(t):
    for mode in (0o777, 0o2777):
        for user in ((ALICE, ALICE), (ALICE, ALICE, (4242,)), (0, 0)):
            t.folder("d")
            os.chown(t.path("d"), 0, 4242)
            os.chmod(t.path("d"), mode)
            with t.user(*user):
                os.umask(0)
                t.mkdir("d/sub", 0o755)
                t.fd("d/plain", os.O_CREAT | os.O_WRONLY, 0o644)
                t.fd("d/program", os.O_CREAT | os.O_WRONLY, 0o6755)
                t.fd("d/locked", os.O_CREAT | os.O_WRONLY, 0o2644)
                t.mknod("d/node", stat.S_IFREG | 0o2755)
                t.mkfifo("d/fifo", 0o640)
                t.do(os.symlink, "x", t.path("d/link"))
            for name in ("sub", "plain", "program", "locked", "node", "fifo", "link"):
                t.see(f"d/{name}")
            t.do(shutil.rmtree, t.path("d"))


def umasks(t):
    for mask in (0, 0o022, 0o077, 0o777):
        os.umask(mask)
        t.mkdir("d", 0o1777)
        t.fd("f", os.O_CREAT | os.O_RDWR, 0o777)
        t.mkfifo("p", 0o666)
        t.mknod("n", stat.S_IFREG | 0o4777)
        for name in ("d", "f", "p", "n"):
            t.see(name)
        os.rmdir(t.path("d"))
        for name in ("f", "p", "n"):
            os.unlink(t.path(name))


def privileges_lost_by_writing(t):
    def write(fd):
        os.write(fd, b"x")
        t.note("mode right after", oct(os.fstat(fd).st_mode))

    for mode in (0o6777, 0o4777, 0o2777, 0o6767, 0o2767, 0o7777):
        for user in ((ALICE, ALICE), (ALICE, ALICE, (4242,)), (0, 0)):
            for change in (write, lambda fd: os.ftruncate(fd, 1), lambda fd: os.ftruncate(fd, 4),
                           lambda fd: os.posix_fallocate(fd, 0, 9),
                           lambda fd: os.pwrite(fd, b"", 0), os.fsync):
                t.file("f", content=b"text")
                os.chown(t.path("f"), BOB, 4242)
                os.chmod(t.path("f"), mode)
                with t.user(*user):
                    with t.opened("f") as fd:
                        change(fd)
                t.see("f")
                t.unlink("f")
    t.file("f", 0o6777)
    with t.user(ALICE), t.opened("f", os.O_RDWR | os.O_TRUNC):
        pass
    t.see("f")
    # The bits come while it is open.
    t.file("g", 0o777)
    with t.user(ALICE):
        fd = t.fd("g", os.O_WRONLY)
    os.chmod(t.path("g"), 0o6777)
    with t.user(ALICE):
        write(fd)
    t.see("g")
    os.fsync(fd)
    t.see("g")


def mknod_rules(t):
    for kind in TYPES.values():
        with t.user(ALICE):
            t.mknod("denied", kind | 0o600, os.makedev(1, 3))
        os.chmod(t.root, 0o777)
        with t.user(ALICE):
            t.mknod("x", kind | 0o640, os.makedev(1, 3))
        os.chmod(t.root, 0o755)
        t.see("x")
        t.do(os.unlink, t.path("x"))
        t.mknod("x", kind | 0o7777, os.makedev(300, 70000))
        t.see("x")
        t.do(os.unlink, t.path("x"))
    t.mknod("x", stat.S_IFDIR | 0o755)
    t.mknod("x", stat.S_IFLNK | 0o755)


def symlinks(t):
    for target in ("x" * 255, "x" * 256, "y/" * 2047, "y/" * 2047 + "z", "y/" * 2048, "", "/", "."):
        t.do(os.symlink, target, t.path("l"))
        t.see("l")
        t.readlink("l")
        t.unlink("l")
    t.do(os.symlink, "f", t.path("l"))
    t.do(os.symlink, "f", t.path("l"))
    t.file("f", 0o600, b"text")
    t.marks("l", "f")
    t.do(os.chown, t.path("l"), 5, 6, follow_symlinks=False)
    t.changed("l", "f")
    t.do(os.utime, t.path("l"), (3, 4), follow_symlinks=False)
    t.see("l")
    t.do(os.setxattr, t.path("l"), "trusted.x", b"1", follow_symlinks=False)
    t.readlink("f")
    for depth in range(45):
        os.symlink(f"c{depth - 1}" if depth else "f", t.path(f"c{depth}"))
    t.stat("c38")
    t.stat("c39")
    t.stat("c41")


def busy_programs(t):
    shutil.copy("/bin/sleep", t.path("program"))
    os.chmod(t.path("program"), 0o755)
    child = os.spawnv(os.P_NOWAIT, t.path("program"), ["sleep", "60"])
    while not os.path.samefile(f"/proc/{child}/exe", t.path("program")):
        pass
    t.fd("program", os.O_WRONLY)
    t.fd("program", os.O_RDONLY)
    t.truncate("program", 0)
    t.unlink("program")
    os.kill(child, 9)
    os.waitpid(child, 0)
    t.file("plain", 0o644, b"#!/bin/true\n")
    t.do(lambda: os.execv(t.path("plain"), ["plain"]))
    os.chmod(t.path("plain"), 0o755)
    with t.opened("plain", os.O_WRONLY):
        t.do(lambda: os.execv(t.path("plain"), ["plain"]))


