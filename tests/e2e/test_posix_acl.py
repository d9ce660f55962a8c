"""POSIX ACLs beside a local file system: who may do what; ACL, mode and umask together."""
import os
import shutil
import stat
import struct
import subprocess

import pytest

from cluster import run
from posix_kinds import ALICE, BOB
from test_posix import reference  # noqa: F401
from twin import differences, tell

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODY = 0xffffffff


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *(entry if len(entry) == 3 else (*entry, NOBODY))) for entry in entries)


FULL = acl((USER_OBJ, 7), (USER, 6, ALICE), (GROUP_OBJ, 5), (GROUP, 1, BOB), (MASK, 6), (OTHER, 1))
MINIMAL = acl((USER_OBJ, 6), (GROUP_OBJ, 4), (OTHER, 0))


def show(t, name):
    t.see(name)
    for kind in (ACCESS, DEFAULT):
        t.getxattr(name, kind)
    t.note("names", sorted(os.listxattr(t.path(name), follow_symlinks=False)))


def validity(t):
    t.file("f")
    t.folder("d")
    for value in (
            b"", b"\2\0\0", b"\1\0\0\0", b"\2\0\0\0", b"\3\0\0\0" + FULL[4:], FULL, FULL[:-1],
            MINIMAL, acl((USER_OBJ, 7)), acl((USER_OBJ, 7), (OTHER, 7)),
            acl((USER_OBJ, 7), (GROUP_OBJ, 7), (MASK, 3), (OTHER, 7)),
            acl((USER_OBJ, 7), (USER, 7, 5), (GROUP_OBJ, 7), (OTHER, 7)),
            acl((USER_OBJ, 8), (GROUP_OBJ, 7), (OTHER, 7)),
            acl((GROUP_OBJ, 7), (USER_OBJ, 7), (OTHER, 7)),
            acl((USER_OBJ, 7), (USER_OBJ, 7), (GROUP_OBJ, 7), (OTHER, 7)),
            acl((USER_OBJ, 7), (USER, 7, 5), (USER, 6, 5), (GROUP_OBJ, 7), (MASK, 7), (OTHER, 7)),
            acl((USER_OBJ, 7), (GROUP_OBJ, 7), (OTHER, 7), (64, 7))):
        for name in ("f", "d"):
            for kind in (ACCESS, DEFAULT):
                t.setxattr(name, kind, value)
                show(t, name)
    for name in ("f", "d"):
        for kind in (ACCESS, DEFAULT):
            t.removexattr(name, kind)
            t.removexattr(name, kind)
            show(t, name)
    t.do(os.symlink, "f", t.path("l"))
    t.do(os.setxattr, t.path("l"), ACCESS, FULL, follow_symlinks=False)
    t.do(os.getxattr, t.path("l"), ACCESS, follow_symlinks=False)


def mode_and_mask(t):
    t.file("f", 0o640)
    for value in (FULL, MINIMAL, FULL):
        t.marks("f")
        t.setxattr("f", ACCESS, value)
        t.changed("f")
        show(t, "f")
        for mode in (0o777, 0o600, 0o070, 0o7757, 0o644):
            t.chmod("f", mode)
            show(t, "f")
    t.chown("f", 5, 6)
    show(t, "f")
    t.removexattr("f", ACCESS)
    show(t, "f")


def set_group_id(t):
    for mode in (0o2755, 0o6770, 0o2644):
        for user in ((ALICE, ALICE), (ALICE, ALICE, (4242,)), (0, 0), (BOB, BOB)):
            for value in (FULL, MINIMAL):
                t.file("f")
                os.chown(t.path("f"), ALICE, 4242)
                os.chmod(t.path("f"), mode)
                with t.user(*user):
                    t.setxattr("f", ACCESS, value)
                    t.removexattr("f", ACCESS)
                show(t, "f")
                t.unlink("f")


def inheritance(t):
    defaults = (FULL, MINIMAL, acl((USER_OBJ, 7), (GROUP_OBJ, 7), (MASK, 5), (OTHER, 7)),
                acl((USER_OBJ, 7), (USER, 7, 5), (GROUP_OBJ, 5), (MASK, 7), (OTHER, 0)))
    for default in defaults:
        for mask in (0, 0o022, 0o077):
            for directory_mode in (0o755, 0o2775):
                t.folder("d", directory_mode)
                t.setxattr("d", DEFAULT, default)
                show(t, "d")
                os.umask(mask)
                for mode in (0o666, 0o600, 0o777, 0o000):
                    t.fd("d/f", os.O_CREAT | os.O_RDWR, mode)
                    t.mkdir("d/s", mode)
                    t.mkfifo("d/p", mode)
                    t.mknod("d/n", stat.S_IFREG | mode)
                    t.do(os.symlink, "x", t.path("d/l"))
                    for name in ("d/f", "d/s", "d/p", "d/n"):
                        show(t, name)
                        os.rmdir(t.path(name)) if name == "d/s" else os.unlink(t.path(name))
                    t.see("d/l")
                    os.unlink(t.path("d/l"))
                t.fd("d", os.O_TMPFILE | os.O_RDWR, 0o666)
                t.do(shutil.rmtree, t.path("d"))


def enforcement(t):
    for who in (ALICE, BOB, 777):
        for named in range(8):
            for mask in (0, 4, 7):
                t.folder("d")
                t.file("f", 0o600, b"text")
                entries = ((USER_OBJ, 7), (USER, named, ALICE), (GROUP_OBJ, 0),
                           (GROUP, named, BOB), (MASK, mask), (OTHER, 0))
                t.setxattr("d", ACCESS, acl(*entries))
                t.setxattr("f", ACCESS, acl(*entries))
                with t.user(who):
                    t.fd("f", os.O_RDONLY)
                    t.fd("f", os.O_WRONLY)
                    t.listdir("d")
                    t.fd("d/x", os.O_CREAT | os.O_WRONLY)
                    t.stat("d/x")
                    t.unlink("d/x")
                    t.setxattr("f", ACCESS, MINIMAL)
                t.unlink("f")
                t.do(shutil.rmtree, t.path("d"))
    # Groups of the process, and the owner whom the ACL does not concern.
    t.file("f", 0o600)
    t.chown("f", ALICE, 0)
    t.setxattr("f", ACCESS, acl((USER_OBJ, 0), (USER, 7, BOB), (GROUP_OBJ, 0), (GROUP, 4, 4242),
                                (MASK, 7), (OTHER, 0)))
    for user in ((ALICE, ALICE), (BOB, BOB), (777, 777, (4242,)), (777, 4242), (777, 777)):
        with t.user(*user):
            t.fd("f", os.O_RDONLY)
            t.fd("f", os.O_RDWR)


def programs(t):
    def call(*command):
        done = subprocess.run(command, cwd=t.root, text=True, capture_output=True, check=False)
        t.note(" ".join(command), (done.returncode, done.stdout, done.stderr))

    t.folder("from")
    t.file("from/f", 0o640, b"text")
    call("setfacl", "-m", f"u:{ALICE}:rw,g:{BOB}:r", "from/f")
    call("setfacl", "-d", "-m", f"u:{ALICE}:rwx", "from")
    call("getfacl", "-n", "from", "from/f")
    call("cp", "-a", "from", "copy")
    call("getfacl", "-Rn", "copy")
    call("rsync", "-aA", "from/", "synced/")
    call("getfacl", "-Rn", "synced")
    call("tar", "--acls", "-cf", "all.tar", "from")
    call("mkdir", "out")
    call("tar", "--acls", "-C", "out", "-xf", "all.tar")
    call("getfacl", "-Rn", "out")
    call("setfacl", "-Rb", "from")
    call("getfacl", "-Rn", "from")
    call("sh", "-c", "ls -ld --time-style=+ from copy out/from | tr -s ' ' | cut -d' ' -f1-4,6")


STORIES = [validity, mode_and_mask, set_group_id, inheritance, enforcement]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_acls_as_on_a_local_file_system(cluster, reference, story):  # noqa: F811
    local = os.path.join(reference, f"acl-{story.__name__}")
    mounted = os.path.join(cluster.ws1, f"acl-{story.__name__}")
    for room in (local, mounted):
        os.mkdir(room)
        try:
            os.setxattr(room, DEFAULT, MINIMAL)
            os.removexattr(room, DEFAULT)
        except OSError:
            assert room is local, "the mount takes no ACLs"
            pytest.skip("the local file system takes no ACLs")
    found = differences(tell(story, local), tell(story, mounted))
    assert not found, f"{story.__name__}: the mount differs:\n{found[:6000]}"


def test_programs_that_know_acls(cluster, reference):  # noqa: F811
    local = os.path.join(reference, "acl-programs")
    mounted = os.path.join(cluster.ws1, "acl-programs")
    os.mkdir(local)
    os.mkdir(mounted)
    found = differences(tell(programs, local), tell(programs, mounted))
    assert not found, f"the mount differs:\n{found[:6000]}"


def test_an_acl_holds_on_the_other_client_at_once(room):
    one, two = room
    os.chmod(one, 0o755)
    with open(f"{one}/f", "w") as file:
        file.write("secret")
    os.chmod(f"{one}/f", 0o600)

    def alice_reads():
        def story(t):
            with t.user(ALICE):
                t.fd("f", os.O_RDONLY)
        return tell(story, two)[1][1]

    assert alice_reads() == "EACCES"
    run("setfacl", "-m", f"u:{ALICE}:r", f"{one}/f")
    assert alice_reads() == "ok"
    run("setfacl", "-b", f"{two}/f")
    assert alice_reads() == "EACCES"
