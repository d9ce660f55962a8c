"""Stories of names: paths, opens, links, renames, removals, symbolic links."""
import os
import shutil
import socket
import subprocess

from posix_kinds import ALICE, KINDS, make
from twin import EXCHANGE, NOREPLACE, WHITEOUT, link_open


# ---- names ------------------------------------------------------------------------------------

def name_lengths(t):
    for name in ("n" * 255, "n" * 256, "ü" * 127, "ü" * 128, ".hidden", "..three", "a\nb"):
        t.mkdir(name)
        t.rmdir(name)
        t.fd(name, os.O_CREAT | os.O_WRONLY)
        t.unlink(name)
        t.mkfifo(name)
        t.stat(name)
        t.both(os.rename, name, "other")
        t.both(os.link, "other", name)
        t.do(os.symlink, "x", t.path(name))
        t.truncate(name, 0)
        for left in (name, "other"):
            t.unlink(left)
    t.stat("")
    t.mkdir("d")
    deep = "d/" * 2000
    t.stat(deep + "d/" * 100)
    t.stat("./" * 1900)


def errors_of_paths(t):
    t.file("file")
    t.folder("dir")
    t.do(os.symlink, "loop2", t.path("loop1"))
    t.do(os.symlink, "loop1", t.path("loop2"))
    for path in ("absent", "absent/x", "file/x", "loop1", "loop1/x", "file/", "dir/", "dir/.",
                 "file/.."):
        t.stat(path)
        t.fd(path, os.O_RDONLY)
        t.fd(path, os.O_WRONLY)
        t.fd(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        t.truncate(path, 0)
        t.chmod(path, 0o755)
        t.chown(path, 1, 1)
        t.utime(path)
        t.readlink(path)
        t.mkdir(path)
        t.mkfifo(path)
        t.do(os.symlink, "x", t.path(path))
        t.both(os.link, path, "linked")
        t.both(os.link, "file", path)
        t.both(os.rename, path, "renamed")
        t.both(os.rename, "renamed", path)
        t.unlink(path)
        t.rmdir(path)
        t.listdir(path)
        t.unlink("linked")
        t.do(shutil.rmtree, t.path("dir"), ignore_errors=True)
        t.do(os.makedirs, t.path("dir"), exist_ok=True)
        if not os.path.lexists(t.path("file")):
            t.file("file")
        t.do(os.symlink, "loop2", t.path("loop1"))


def open_flags(t):
    t.file("file", content=b"text")
    t.folder("dir")
    t.do(os.symlink, "file", t.path("link"))
    t.do(os.symlink, "new", t.path("dangling"))
    t.mkfifo("fifo")
    with_socket = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(t.root)
    t.do(with_socket.bind, "socket")
    os.chdir(here)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_DIRECTORY,
                  os.O_RDONLY | os.O_NOFOLLOW, os.O_CREAT | os.O_RDONLY,
                  os.O_CREAT | os.O_EXCL | os.O_RDWR, os.O_WRONLY | os.O_TRUNC,
                  os.O_RDONLY | os.O_PATH, os.O_RDONLY | os.O_CREAT | os.O_DIRECTORY):
        for name in ("file", "dir", "link", "dangling", "socket", "absent"):
            t.fd(name, flags)
            t.see(name)
    t.fd("fifo", os.O_WRONLY | os.O_NONBLOCK)
    t.fd("fifo", os.O_RDONLY | os.O_NONBLOCK)
    t.see("socket")


def removal(t):
    for kind in KINDS:
        make(t, kind, "x")
        t.rmdir("x")
        t.unlink("x")
        t.see("x")
        if kind == "dir":
            t.rmdir("x")
        t.unlink("x")
    t.folder("d")
    t.folder("d/e")
    t.file("d/e/f")
    for path in ("d", "d/e", "d/e/..", "d/e/.", "d/e/f"):
        t.rmdir(path)
    t.unlink("d/e/f")
    t.rmdir("d/e")
    t.see("d")
    with t.opened("d", os.O_RDONLY) as fd:
        os.rmdir(t.path("d"))
        t.note("nlink", os.fstat(fd).st_nlink)
        t.do(os.listdir, f"/proc/self/fd/{fd}")
        t.note("dir_fd", None)
        try:
            os.mkdir("x", dir_fd=fd)
        except OSError as error:
            t.note("mkdir in a removed directory", error.errno)


def links(t):
    for kind in KINDS:
        make(t, kind, "x")
        if kind != "dir":
            t.marks("x", ".")
        t.do(os.link, t.path("x"), t.path("y"), follow_symlinks=False)
        if kind != "dir":
            t.changed("x", ".")
        t.see("x")
        t.see("y")
        t.do(os.link, t.path("x"), t.path("y"), follow_symlinks=False)
        if kind != "dir":
            t.marks("x", ".")
            t.unlink("y")
            t.changed("x", ".")
        t.see("x")
        t.rmdir("x") if kind == "dir" else t.unlink("x")
    t.file("f")
    t.both(os.link, "f", "f/x")
    with t.opened("f") as fd:
        os.unlink(t.path("f"))
        t.note("nlink", os.fstat(fd).st_nlink)
        t.do(lambda: link_open(fd, t.path("again")))


def renames(t):
    for kind in KINDS:
        for other in KINDS + [None]:
            for flags in (0, NOREPLACE, EXCHANGE, WHITEOUT, WHITEOUT | NOREPLACE,
                          WHITEOUT | EXCHANGE, NOREPLACE | EXCHANGE, 8):
                make(t, kind, "a")
                if other:
                    make(t, other, "b")
                t.rename2("a", "b", flags)
                t.see("a")
                t.see("b")
                for left in ("a", "b"):
                    if os.path.isdir(t.path(left)) and not os.path.islink(t.path(left)):
                        os.rmdir(t.path(left))
                    elif os.path.lexists(t.path(left)):
                        os.unlink(t.path(left))
    os.makedirs(t.path("p/q/r"))
    t.file("p/file")
    t.both(os.rename, "p", "p/q/s")
    t.both(os.rename, "p/q/r", "p")
    t.both(os.rename, "p/q", "p/q")
    t.both(os.rename, "p/q/.", "z")
    t.both(os.rename, "p/q", "p/q/..")
    t.rename2("p", "p/q/r", EXCHANGE)
    t.both(os.rename, "p/q/r", "r")
    t.see("p")
    t.see("p/q")
    t.see("r")
    t.both(os.link, "p/file", "p/twice")
    t.both(os.rename, "p/file", "p/twice")
    t.see("p/file")
    with t.opened("r", os.O_RDONLY) as fd:
        t.folder("r2")
        os.rename(t.path("r2"), t.path("r"))
        t.note("nlink of the replaced", os.fstat(fd).st_nlink)


def whiteouts(t):
    """RENAME_WHITEOUT: who owns what is left, and what can be done with it."""
    t.folder("shared", 0o2777)
    os.chown(t.path("shared"), 0, 4242)
    os.chmod(t.path("shared"), 0o2777)
    t.folder("sticky", 0o1777)
    for user in (0, ALICE):
        with t.user(user):
            t.fd("shared/f", os.O_CREAT | os.O_RDWR)
            t.mkdir("shared/d")
            t.marks("shared")
            t.rename2("shared/f", "shared/g", WHITEOUT)
            t.changed("shared")
            t.rename2("shared/d", "shared/e", WHITEOUT)
        t.note("listed", sorted((entry.name, entry.is_dir(follow_symlinks=False))
                                for entry in os.scandir(t.path("shared"))))
        for name in ("f", "g", "d", "e", ""):
            t.see(f"shared/{name}")
        t.file("sticky/f")
        with t.user(user):
            t.fd("shared/f", os.O_RDWR)
            t.both(os.rename, "shared/g", "shared/f")
            t.unlink("shared/f")
            t.unlink("shared/d")
            t.rmdir("shared/e")
            t.rename2("sticky/f", "sticky/g", WHITEOUT)
        t.see("sticky/f")
        t.do(shutil.rmtree, t.path("sticky"))
        t.folder("sticky", 0o1777)
    t.file("f")
    os.link(t.path("f"), t.path("twice"))
    t.rename2("f", "twice", WHITEOUT)
    t.rename2("f", "f", WHITEOUT)
    t.rename2("absent", "new", WHITEOUT)
    t.see("f")


def flagged(t):
    """chattr(1): immutable and append-only."""
    def chattr(flags, name):
        done = subprocess.run(["chattr", flags, t.path(name)], capture_output=True, check=False)
        t.note(f"chattr {flags} {name}", done.returncode)

    for flag in ("i", "a"):
        t.file("f", 0o666, b"text")
        t.folder("d", 0o777)
        t.file("d/x", 0o666)
        with t.user(65534):
            chattr(f"+{flag}", "f")
        for name in ("f", "d"):
            chattr(f"+{flag}", name)
        flags = subprocess.run(["lsattr", "-d", t.path("f"), t.path("d")], capture_output=True,
                               text=True, check=False).stdout
        t.note("lsattr", [set(line.split()[0]) - set("-eNI") for line in flags.splitlines()])
        for name in ("f", "d/x"):
            for how in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND,
                        os.O_WRONLY | os.O_TRUNC):
                t.fd(name, how)
            t.chmod(name, 0o600)
            t.chown(name, 1, 1)
            t.utime(name)
            t.utime(name, (1, 1))
            t.truncate(name, 0)
            t.setxattr(name, "trusted.x", b"1")
            t.both(os.link, name, "other")
            t.unlink("other")
        t.fd("d/new", os.O_CREAT | os.O_WRONLY)
        t.mkdir("d/sub")
        t.both(os.rename, "d/x", "d/y")
        t.both(os.rename, "d/x", "x")
        t.unlink("d/x")
        t.both(os.rename, "f", "g")
        t.both(os.rename, "d", "e")
        t.unlink("f")
        t.rmdir("d")
        t.see("f")
        for name in ("f", "d"):
            chattr(f"-{flag}", name)
        t.unlink("f")
        t.do(shutil.rmtree, t.path("d"))


def times_of_names(t):
    t.folder("d")
    t.folder("e")
    for step, touched in (
            (lambda: t.file("d/f"), ["d"]), (lambda: t.mkdir("d/s"), ["d"]),
            (lambda: t.mkfifo("d/p"), ["d"]), (lambda: t.both(os.link, "d/f", "d/g"), ["d", "d/f"]),
            (lambda: t.do(os.symlink, "x", t.path("d/l")), ["d"]),
            (lambda: t.both(os.rename, "d/f", "d/h"), ["d", "d/g"]),
            (lambda: t.both(os.rename, "d/s", "e/s"), ["d", "e"]),
            (lambda: t.both(os.rename, "d/h", "e/h"), ["d", "e", "d/g"]),
            (lambda: t.both(os.rename, "d/p", "e/h"), ["d", "e", "d/g"]),
            (lambda: t.rename2("d/g", "e/h", EXCHANGE), ["d", "e"]),
            (lambda: t.unlink("d/l"), ["d"]), (lambda: t.rmdir("e/s"), ["e"]),
            (lambda: t.mkdir("d"), ["d", "."]), (lambda: t.rmdir("absent"), ["d", "."]),
            (lambda: t.rename2("d", "e", NOREPLACE), ["d", "e", "."])):
        t.marks(*touched)
        step()
        t.changed(*touched)
