"""Mounts without a controller: they wait, can be killed, come back by themselves, and go."""
import errno
import os
import select
import signal
import subprocess
import sys

import pytest

from cluster import BIN, run

SOFT_MS = 1000


def write_synced(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


def start_waiting(*command):
    """A process that is asleep in the mount: it has begun, and the kernel has its request."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    return process


def test_a_waiting_process_can_be_killed(cluster, room):
    write_synced(f"{room[0]}/file", b"text")
    cluster.kill("mdc1")
    for command in (("stat", f"{room[0]}/file"), ("touch", f"{room[0]}/new"),
                    ("ls", room[0]), ("rm", f"{room[0]}/file")):
        process = start_waiting(*command)
        process.kill()
        assert process.wait(timeout=10) == -signal.SIGKILL
    cluster.start("mdc1")
    with open(f"{room[1]}/file", "rb") as file:
        assert file.read() == b"text"


def test_waiting_calls_end_when_the_controller_is_back(cluster, room):
    write_synced(f"{room[0]}/file", b"text")
    before = cluster.log("ws1").count("the controller is away")
    cluster.kill("mdc1")
    waiting = [start_waiting("cp", f"{room[0]}/file", f"{room[0]}/copy"),
               start_waiting("mkdir", f"{room[0]}/folder"),
               start_waiting("cat", f"{room[0]}/file")]
    cluster.start("mdc1")
    for process in waiting:
        assert process.wait(timeout=60) == 0, process.stdout.read()
    assert sorted(os.listdir(room[1])) == ["copy", "file", "folder"]
    assert cluster.log("ws1").count("the controller is away") == before + 1


CALLS_UNDER_A_TIMER = r"""
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)  # Python's own calls try again after EINTR
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
path = sys.argv[1].encode()
file = os.open(path, os.O_RDWR)
while True:
    for call in (lambda: libc.lseek(file, 0, os.SEEK_END), lambda: libc.fsync(file),
                 lambda: libc.close(libc.open(path, os.O_RDONLY)),
                 lambda: libc.mkdir(path + b".dir", 0o755) or libc.rmdir(path + b".dir"),
                 lambda: libc.truncate(path, 5) or libc.truncate(path, 4)):
        if call() < 0:
            sys.exit(os.strerror(ctypes.get_errno()))
    print("round", flush=True)
"""


def test_a_caught_signal_fails_no_call(cluster, room):
    """A database's timers, for one: EINTR from lseek(2) or fsync(2) would end it."""
    write_synced(f"{room[0]}/file", b"text")
    process = subprocess.Popen([sys.executable, "-c", CALLS_UNDER_A_TIMER, f"{room[0]}/file"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(3):
            assert process.stdout.readline() == "round\n"
            cluster.kill("mdc1")
            while select.select([process.stdout], [], [], 1.5)[0]:  # until it has stood a while
                assert process.stdout.readline() == "round\n"
            cluster.start("mdc1")
            assert process.stdout.readline() == "round\n"
    finally:
        process.kill()
        process.wait()


def test_forced_unmount_without_a_controller(cluster, room):
    write_synced(f"{room[0]}/file", b"text")
    cluster.kill("mdc1")
    waiting = start_waiting("stat", f"{room[0]}/file")
    done = subprocess.run(["umount", "-f", cluster.ws1], capture_output=True, text=True, timeout=60)
    # -f breaks the connection: what waits gets an error, and the mount can go.
    assert waiting.wait(timeout=30) != 0
    if done.returncode != 0:
        run("umount", cluster.ws1, timeout=60)
    assert not os.path.ismount(cluster.ws1)
    cluster.start("mdc1")
    cluster.start("ws1")
    with open(f"{room[0]}/file", "rb") as file:
        assert file.read() == b"text"


def mount_by_hand(cluster, directory, options=""):
    os.makedirs(directory, exist_ok=True)
    where = cluster.where("mdc1")
    run(os.path.join(BIN, "mount.reelfs"), "reel", directory, "-o",
        f"mdc={where},luns={cluster.luns()},config={cluster.own_config()},"
        f"log={directory}.log,{options}")


@pytest.fixture
def soft_mount(cluster):
    """A third client, mounted by hand as a person would, with -o soft,timeout."""
    directory = os.path.join(cluster.scratch, "soft")
    mount_by_hand(cluster, directory, f"soft,timeout={SOFT_MS}")
    try:
        yield directory
    finally:
        run("umount", directory, timeout=60)


def test_calls_wait_on_a_fresh_mount(cluster, room):
    """EINTR from touch(1), as long as the root's attributes had never been asked for."""
    name = os.path.basename(room[0])
    directory = os.path.join(cluster.scratch, "untouched")
    mount_by_hand(cluster, directory)
    cluster.kill("mdc1")
    try:
        waiting = [start_waiting("touch", f"{directory}/{name}/new"),
                   start_waiting("ls", f"{directory}/{name}")]
        run("stat", directory, timeout=60)  # as umount(8) does
        run("stat", "-f", directory, timeout=60)
    finally:
        cluster.start("mdc1")
    for process in waiting:
        assert process.wait(timeout=60) == 0, process.stdout.read()
    run("umount", directory, timeout=60)
    assert os.listdir(room[0]) == ["new"]


def test_a_fresh_soft_mount_gives_errors(cluster, room):
    """Also to a shell, which tries again after EINTR, for ever."""
    directory = os.path.join(cluster.scratch, "untouched-soft")
    mount_by_hand(cluster, directory, f"soft,timeout={SOFT_MS}")
    cluster.kill("mdc1")
    try:
        done = subprocess.run(["bash", "-c", f"echo text >{directory}/file"], timeout=60,
                              capture_output=True, text=True)
        assert done.returncode != 0 and os.strerror(errno.ETIMEDOUT) in done.stderr, done.stderr
    finally:
        cluster.start("mdc1")
        run("umount", directory, timeout=60)


def test_a_soft_mount_gives_errors(cluster, room, soft_mount):
    folder = os.path.join(soft_mount, os.path.basename(room[0]))
    write_synced(f"{folder}/file", b"text")
    cluster.kill("mdc1")
    for call in (lambda: os.stat(f"{folder}/file"), lambda: os.mkdir(f"{folder}/new"),
                 lambda: os.listdir(folder)):
        with pytest.raises(OSError) as error:
            call()
        assert error.value.errno == errno.ETIMEDOUT
    cluster.start("mdc1")
    run("timeout", "60", "sh", "-c",  # by itself, within a moment
        f"until cat {folder}/file; do :; done")
    write_synced(f"{folder}/more", b"more")
    with open(f"{room[1]}/more", "rb") as file:
        assert file.read() == b"more"
