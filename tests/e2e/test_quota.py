"""Quotas on real mounts: writers on two hosts at a limit, trees, counting what there was."""
import errno
import os
import subprocess
import threading

from cluster import run, until
from json_schema import check

PYTHON = "/usr/bin/python3"  # that other users may run
ANN, BOB = 4242, 4243
MIB = 1 << 20
# Appends until it is refused; prints how much it has written, and the error's number.
FILL = """
import os, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
written = 0
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
try:
    while True:
        written += os.write(file, b"x" * int(sys.argv[3]))
        if written % (8 << 20) == 0: os.fsync(file)
except OSError as error:
    os.fsync(file)
    print(written, error.errno)
"""


def filler(path, user=ANN, piece=MIB):
    return subprocess.Popen([PYTHON, "-c", FILL, path, str(user), str(piece)],
                            stdout=subprocess.PIPE, text=True)


def outcomes(fillers):
    """Bytes written in all, and the errors by which they ended."""
    ends = [each.communicate(timeout=120)[0].split() for each in fillers]
    return sum(int(written) for written, _ in ends), {int(error) for _, error in ends}


def count_all(cluster):
    cluster.reeladm("quota", "on")
    until(lambda: cluster.reeladm("quota")["state"] == "on")
    check("quota", cluster.reeladm("quota"))
    check("quota", cluster.reeladm("quota", "list"))


def usage(cluster, kind, name):
    return cluster.reeladm("quota", "get", kind, str(name))["quotas"][0]


def unlimit(cluster, user=ANN):
    cluster.reeladm("quota", "set", "user", str(user), "soft=0", "hard=0", "files-soft=0",
                    "files-hard=0")


def test_what_there_was_is_counted(cluster, room):
    one, two = room
    os.chmod(one, 0o777)
    for number in range(300):
        with open(f"{one}/{number}", "wb") as file:
            file.write(b"x" * 20_000)
    os.sync()
    for number in range(200):
        os.chown(f"{one}/{number}", BOB, BOB)
    count_all(cluster)
    blocks = sum(os.stat(f"{two}/{number}").st_blocks * 512 for number in range(200))
    assert usage(cluster, "user", BOB)["files"] == 200
    assert usage(cluster, "user", BOB)["bytes"] == blocks
    cluster.restart()
    assert usage(cluster, "group", BOB)["bytes"] == blocks
    for number in range(300):
        os.unlink(f"{two}/{number}")
    until(lambda: usage(cluster, "user", BOB)["files"] == 0)
    assert usage(cluster, "user", BOB)["bytes"] == 0


def test_writers_of_two_hosts_use_a_limit_up(cluster, room):
    """16 writers: never past it, and little is left of it when all of them are refused."""
    for directory in room:
        os.chmod(directory, 0o777)
    count_all(cluster)
    limit = 200 * MIB
    cluster.reeladm("quota", "set", "user", str(ANN), f"hard={limit}")
    fillers = [filler(f"{room[number % 2]}/file{number}", piece=(1 + number % 4) * 256 * 1024)
               for number in range(16)]
    written, errors = outcomes(fillers)
    assert errors == {errno.EDQUOT}
    assert usage(cluster, "user", ANN)["bytes"] <= limit
    assert limit - 8 * MIB <= written <= limit
    # (Who was late on a busy machine has had nothing.)
    os.unlink(max((f"{room[0]}/file{number}" for number in range(16)), key=os.path.getsize))
    again, errors = outcomes([filler(f"{room[1]}/again")])
    assert errors == {errno.EDQUOT} and again > 0
    assert usage(cluster, "user", ANN)["bytes"] <= limit
    unlimit(cluster)


def test_files_are_limited_also_where_they_are_delegated(cluster, room):
    one, two = room
    os.chmod(one, 0o777)
    count_all(cluster)
    before = usage(cluster, "user", ANN)["files"]
    cluster.reeladm("quota", "set", "user", str(ANN), f"files-hard={before + 500}")
    script = """
import os, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
made = 0
try:
    while True:
        os.close(os.open(f"{sys.argv[1]}{made}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        made += 1
except OSError as error:
    print(made, error.errno)
"""
    os.mkdir(f"{one}/a")
    os.mkdir(f"{one}/b")
    for directory in ("a", "b"):
        os.chown(f"{one}/{directory}", ANN, ANN)
    extra = usage(cluster, "user", ANN)["files"] - before
    makers = [subprocess.Popen([PYTHON, "-c", script, path, str(ANN)], stdout=subprocess.PIPE,
                               text=True) for path in (f"{one}/a/n", f"{two}/b/n")]
    made, errors = outcomes(makers)
    assert errors == {errno.EDQUOT}
    # Numbers that the other host has reserved are few so near to the limit.
    assert 500 - extra - 32 <= made <= 500 - extra
    assert usage(cluster, "user", ANN)["files"] <= before + 500
    unlimit(cluster)


def test_fallocate_and_chgrp_are_refused(cluster, room):
    one, _ = room
    os.chmod(one, 0o777)
    count_all(cluster)
    before = usage(cluster, "user", BOB)["bytes"]
    cluster.reeladm("quota", "set", "user", str(BOB), f"hard={before + 4 * MIB}")
    with open(f"{one}/big", "wb") as file:
        os.fchown(file.fileno(), BOB, BOB)
        try:
            os.posix_fallocate(file.fileno(), 0, 8 * MIB)
            raise AssertionError("it has more than it may have")
        except OSError as error:
            assert error.errno == errno.EDQUOT
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
    unlimit(cluster, BOB)


def test_a_tree_is_a_small_file_system(cluster, room):
    one, two = room
    count_all(cluster)
    os.makedirs(f"{one}/scans/old")
    with open(f"{one}/scans/old/file", "wb") as file:
        file.write(bytes(MIB))
    os.symlink("nowhere", f"{one}/scans/link")
    with open(f"{one}/out", "wb") as file:
        file.write(bytes(MIB))
    cluster.reeladm("quota", "tree", "add", "scans", f"{one}/scans")
    cluster.reeladm("quota", "set", "tree", "scans", "hard=64M")
    assert os.getxattr(f"{two}/scans/old/file", "reelfs.tree") == b"scans"
    assert usage(cluster, "tree", "scans")["files"] == 4
    os.mkdir(f"{two}/scans/new")
    assert os.getxattr(f"{two}/scans/new", "reelfs.tree") == b"scans"
    for moves in (os.rename, os.link):
        try:
            moves(f"{one}/out", f"{one}/scans/in")
            raise AssertionError("it came into the tree")
        except OSError as error:
            assert error.errno == errno.EXDEV
    run("mv", f"{one}/out", f"{one}/scans/in")
    assert os.path.getsize(f"{two}/scans/in") == MIB
    shown = os.statvfs(f"{two}/scans/new")
    assert shown.f_blocks * shown.f_frsize == 64 * MIB
    assert shown.f_bavail * shown.f_frsize == 64 * MIB - usage(cluster, "tree", "scans")["bytes"]
    written, errors = outcomes([filler(f"{two}/scans/new/fill", user=0)])
    assert errors == {errno.EDQUOT}
    assert written <= 64 * MIB
    assert b'tree "scans" bytes=' in os.getxattr(f"{one}/scans", "reelfs.quota")
    cluster.reeladm("quota", "tree", "remove", "scans")
    os.rename(f"{one}/scans/in", f"{one}/out")


def test_a_limit_holds_through_a_failover(cluster, room):
    for directory in room:
        os.chmod(directory, 0o777)
    count_all(cluster)
    limit = usage(cluster, "user", ANN)["bytes"] + 96 * MIB
    cluster.reeladm("quota", "set", "user", str(ANN), f"hard={limit}")
    fillers = [filler(f"{room[number % 2]}/f{number}", piece=64 * 1024) for number in range(4)]
    killer = threading.Timer(0.5, cluster.restart)
    killer.start()
    _, errors = outcomes(fillers)
    killer.join()
    assert errors == {errno.EDQUOT}
    assert usage(cluster, "user", ANN)["bytes"] <= limit
    unlimit(cluster)

