"""Advisory locks between hosts: fcntl(2) ranges, by process and by open file, and flock(2)."""
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

# Whoever waits for a dead host waits for its lease.
CLUSTER = {"clients": 4, "session_lease_ms": 3000}
PLAYER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lock_player.py")
PATIENCE = 60


class Player:
    """A process on one of the hosts; calls are its answers."""

    def __init__(self, path=None):
        self.process = subprocess.Popen([sys.executable, "-B", PLAYER], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if path:
            self("open", "f", path)

    def begin(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def end(self):
        answer = json.loads(self.process.stdout.readline())
        return answer["errno"] if isinstance(answer, dict) else answer

    def __call__(self, *command):
        self.begin(*command)
        return self.end()

    def lock(self, type_name="write", first=0, length=0, kind="posix", name="f"):
        return self("lock", name, kind, type_name, first, length, False)

    def begin_wait(self, type_name="write", first=0, length=0, kind="posix", name="f"):
        self.begin("lock", name, kind, type_name, first, length, True)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def players(room):
    """One on each host, with one file open; and a way to make more."""
    made = []

    def make(host):
        made.append(Player(f"{room[host]}/file"))
        return made[-1]
    make.pair = (make(0), make(1))
    yield make
    for player in made:
        player.kill()


def await_waiters(cluster, count):
    """Until the controller knows of so many that wait."""
    deadline = time.monotonic() + PATIENCE
    while True:
        waiting = [lock for lock in cluster.reeladm("locks")["locks"] if lock["state"] == "waits"]
        if len(waiting) == count:
            return
        assert time.monotonic() < deadline, waiting


@pytest.mark.parametrize("kind", ["posix", "ofd", "flock"])
def test_one_host_keeps_the_other_out(players, kind):
    a, b = players.pair
    assert a.lock(kind=kind) is None
    assert b.lock(kind=kind) == "EAGAIN"
    assert b.lock("read", kind=kind) == "EAGAIN"
    assert a.lock("read", kind=kind) is None  # weaker
    assert b.lock("read", kind=kind) is None
    assert a.lock("write", kind=kind) == "EAGAIN"
    assert b.lock("none", kind=kind) is None
    assert a.lock("write", kind=kind) is None


def test_ranges(players):
    a, b = players.pair
    assert a.lock(first=100, length=100) is None
    assert b.lock(first=0, length=100) is None
    assert b.lock(first=200) is None
    assert b("test", "f", "posix", "read", 0, 0) == ["write", 100, 100]
    assert a("test", "f", "posix", "write", 150, 0) == ["write", 200, 0]
    assert a("test", "f", "posix", "read", 110, 10) is None
    assert a.lock("none", first=120, length=10) is None
    assert b.lock(first=120, length=10) is None
    assert b.lock(first=129, length=2) == "EAGAIN"


def test_a_wait_ends_when_the_lock_is_free(cluster, players):
    a, b = players.pair
    c = players(1)
    assert a.lock() is None
    b.begin_wait("read", first=10, length=1)
    c.begin_wait("read", first=10, length=1)
    await_waiters(cluster, 2)
    assert a.lock("none") is None
    assert b.end() is None and c.end() is None


def test_a_signal_ends_a_wait(cluster, players):
    a, b = players.pair
    assert a.lock() is None
    b.begin_wait()
    await_waiters(cluster, 1)
    b.process.send_signal(signal.SIGALRM)
    assert b.end() == "EINTR"
    await_waiters(cluster, 0)
    assert a.lock("none") is None
    assert a.lock() is None  # nobody got it meanwhile


def test_a_ring_of_waits_is_a_deadlock(cluster, players):
    a, b = players.pair
    c = players(0)
    for place, player in enumerate((a, b, c)):
        assert player.lock(first=place, length=1) is None
    a.begin_wait(first=1, length=1)
    b.begin_wait(first=2, length=1)
    await_waiters(cluster, 2)
    assert c("lock", "f", "posix", "write", 0, 1, True) == "EDEADLOCK"  # (its other name)
    assert c.lock("none") is None
    assert b.end() is None


def test_closing_any_descriptor_drops_a_processes_ranges(players, room):
    a, b = players.pair
    assert a.lock() is None
    a("open", "again", f"{room[0]}/file")
    assert b.lock() == "EAGAIN"
    a("close", "again")
    assert b.lock() is None


@pytest.mark.parametrize("kind", ["ofd", "flock"])
def test_an_open_file_keeps_its_lock_until_its_last_descriptor(players, room, kind):
    a, b = players.pair
    assert a.lock(kind=kind) is None
    a("open", "again", f"{room[0]}/file")
    a("close", "again")
    a("dup", "f", "copy")
    a("close", "f")
    assert b.lock(kind=kind) == "EAGAIN"
    a("close", "copy")
    b.begin_wait(kind=kind)  # (the kernel tells of the last close without waiting)
    assert b.end() is None


@pytest.mark.parametrize("kind", ["posix", "ofd", "flock"])
def test_a_killed_process_holds_nothing(cluster, players, kind):
    a, b = players.pair
    c = players(0)
    assert a.lock(kind=kind) is None
    c.begin_wait(kind=kind)
    await_waiters(cluster, 1)
    b.begin_wait(kind=kind)
    await_waiters(cluster, 2)
    c.kill()
    a.kill()
    assert b.end() is None


def test_a_new_controller_knows_the_locks(cluster, players):
    a, b = players.pair
    assert a.lock(first=0, length=10) is None
    assert a.lock(kind="flock") is None
    b.begin_wait(first=5, length=1)
    await_waiters(cluster, 1)
    cluster.kill("mdc1")
    cluster.start("mdc1")
    c = players(1)
    assert c.lock(first=0, length=1) == "EAGAIN"
    assert c.lock(kind="flock") == "EAGAIN"
    await_waiters(cluster, 1)
    assert a.lock("none", first=5, length=1) is None
    assert b.end() is None
    assert c.lock(first=0, length=1) == "EAGAIN"


def test_a_dead_hosts_locks_are_free_after_its_lease(cluster, players):
    a, b = players.pair
    assert a.lock() is None
    cluster.kill("ws1")
    b.begin_wait()
    assert b.end() is None
    a.kill()
    cluster.start("ws1")


def test_the_only_user_of_locks_asks_nothing(cluster, players):
    a, b = players.pair

    def asked():
        return cluster.counters()["op.set_lock"]
    assert a.lock(first=100, length=1) is None
    before = asked()
    for _ in range(50):
        assert a.lock("write", first=0, length=10) is None
        assert a.lock("none", first=0, length=10) is None
    assert a.lock("read", first=5, length=10) is None
    assert asked() == before
    held = {(lock["first"], lock["last"], lock["type"])
            for lock in cluster.reeladm("locks")["locks"]}
    assert held == {(100, 100, "write"), (5, 14, "read")}
    assert b.lock("write", first=10, length=1) == "EAGAIN"
    assert b.lock("read", first=10, length=1) is None
    assert a.lock("write", first=0, length=20) == "EAGAIN"


def test_an_administrator_breaks_locks(cluster, players, room):
    a, b = players.pair
    assert a.lock() is None
    b.begin_wait("read")
    await_waiters(cluster, 1)
    broken = cluster.reeladm("locks", "break", os.stat(f"{room[0]}/file").st_ino)["locks"]
    assert [lock["pid"] for lock in broken] == [a.process.pid]
    assert b.end() is None
    # Its holder learns of it, and begins anew with the file.
    assert a.lock("read") == "EIO"
    a("close", "f")
    a("open", "f", f"{room[0]}/file")
    assert a.lock("read") is None


def open_for_writing(path):
    """0 and closed again, or the errno."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
        return 0
    except OSError as error:
        return error.errno


def test_a_single_writer(cluster, room):
    """All read meanwhile; the next one comes when the last descriptor of this one is closed."""
    one, two, *_ = room
    os.setxattr(two, "reelfs.writers", b"single")
    file = os.open(f"{one}/take", os.O_WRONLY | os.O_CREAT, 0o644)
    assert os.getxattr(f"{two}/take", "reelfs.writers") == b"single"
    assert open_for_writing(f"{one}/take") == 0  # its own host
    os.write(file, b"first")
    assert open_for_writing(f"{two}/take") == errno.EBUSY
    with pytest.raises(OSError) as refused:
        os.truncate(f"{two}/take", 0)
    assert refused.value.errno == errno.EBUSY
    with open(f"{two}/take", "rb") as reader:
        assert reader.read() == b"first"
    cluster.kill("mdc1")
    cluster.start("mdc1")
    assert open_for_writing(f"{two}/take") == errno.EBUSY
    broken = cluster.reeladm("locks", "break", os.stat(f"{one}/take").st_ino)["locks"]
    assert [lock["kind"] for lock in broken] == ["writer"]
    assert open_for_writing(f"{two}/take") == 0
    with pytest.raises(OSError) as refused:
        os.write(file, b"late")
    assert refused.value.errno == errno.EIO
    os.close(file)
    deadline = time.monotonic() + PATIENCE
    while open_for_writing(f"{one}/take") != 0:  # close(2) does not wait for the kernel's RELEASE
        assert time.monotonic() < deadline
    os.setxattr(f"{one}/take", "reelfs.writers", b"many")
    with open(f"{one}/take", "r+b"), open(f"{two}/take", "r+b"):
        assert os.listxattr(f"{one}/take") == []


@pytest.mark.parametrize("options", ["", "-rw", "-m"])
def test_ping_pong(room, options):
    """ctdb's own test of coherent locks (and bytes), on all hosts: each sees the increments."""
    command = ["timeout", "-s", "INT", "6", "ping_pong", *options.split()]
    locks = str(len(room) + 1)
    runs = [subprocess.Popen([*command, f"{directory}/pp", locks], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for directory in room]
    said = [run.communicate(timeout=PATIENCE)[0] for run in runs]
    for text in said:
        rates = [float(rate) for rate in re.findall(r"([0-9.]+) locks/sec", text)]
        assert rates and max(rates) > 0, text
        assert "error" not in text.lower() and "fail" not in text.lower(), text
    if options == "-rw":
        assert any(f"data increment = {len(room)}" in text for text in said), said
