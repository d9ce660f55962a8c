"""What administrators do to a volume by hand: activate, stop, start, maintenance, and what the
daemons tell systemd."""
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading

from cluster import LAB, until

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "luns": "meta=1x1G,data=2x1G"}
LOAD = os.path.join(os.path.dirname(LAB), "drill_load.py")


def addresses(cluster):
    return {mdc: cluster.where(mdc) for mdc in cluster.mdcs}


def ask(cluster, *words, mdcs=None):
    """reeladm with all controllers' addresses, or with those."""
    where = addresses(cluster)
    named = ",".join(where[mdc] for mdc in mdcs or cluster.mdcs)
    return cluster.tool("reeladm", "--mdc", named, "--volume", "reel", "--json", *words)


def answered(cluster, *words, mdcs=None):
    done = ask(cluster, *words, mdcs=mdcs)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(cluster, code, *words, mdcs=None):
    """The one line that a command ends with."""
    done = ask(cluster, *words, mdcs=mdcs)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def roles(cluster, *mdcs):
    """Who is what, as `show` tells of all controllers."""
    return {mdc["address"]: mdc for mdc in answered(cluster, "show", mdcs=mdcs)["controllers"]}


def settle(cluster):
    """Who has handed over begins anew, and answers nobody meanwhile: until all do."""
    until(lambda: {cluster.role(mdc) for mdc in cluster.mdcs} == {"active", "standby"})


def other(cluster, mdc):
    return next(one for one in cluster.mdcs if one != mdc)


@contextlib.contextmanager
def creating(mount, room):
    """Files are created all the while, and none fails."""
    directory = os.path.join(mount, room)
    os.makedirs(directory, exist_ok=True)
    program = subprocess.Popen([sys.executable, "-B", LOAD, "create", directory],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline()
    yield
    lines = [json.loads(line) for line in program.communicate(timeout=60)[0].splitlines()]
    assert lines and not [line for line in lines if line["error"]]


def test_activate_moves_the_volume_to_the_one_that_is_named(cluster, room):
    first = cluster.active()
    second = other(cluster, first)
    where = addresses(cluster)
    with creating(cluster.ws1, os.path.basename(room[0])):
        for target in (second, first, second):
            settle(cluster)
            done = answered(cluster, "activate", where[target])
            assert done == {"name": "reel", "active": where[target]}
            assert cluster.active() == target
        # Without a name: the one that reeladm asks.
        settle(cluster)
        assert answered(cluster, "activate", mdcs=[first])["active"] == where[first]
        assert cluster.active() == first
        assert answered(cluster, "activate", mdcs=[first])["active"] == where[first]  # is already


def test_show_lists_both(cluster):
    settle(cluster)
    active = cluster.active()
    where = addresses(cluster)
    seen = roles(cluster)
    assert {seen[where[mdc]]["role"] for mdc in cluster.mdcs} == {"active", "standby"}
    assert seen[where[active]]["role"] == "active"
    assert all(mdc["program"] and mdc["protocol"] == "1 to 2" and mdc["epoch"]
               for mdc in seen.values())
    # A standby alone is enough to find the other by.
    assert set(roles(cluster, other(cluster, active))) == set(where.values())
    # One that is gone is told of, and does not hold the others up.
    standby = other(cluster, active)
    cluster.kill(standby)
    assert roles(cluster)[where[standby]]["role"] == "does not answer"
    cluster.start(standby)


def test_the_active_one_is_found_behind_one_that_hangs(cluster):
    settle(cluster)
    active = cluster.active()
    standby = other(cluster, active)
    for name in ("STOP", "KILL"):
        cluster.kill(standby, name)
        try:
            assert answered(cluster, "who", mdcs=[standby, active])["name"] == "reel"
        finally:
            if name == "STOP":
                cluster.kill(standby, "CONT")
    cluster.start(standby)


def test_a_stopped_volume_waits_for_start(cluster, room):
    mounts = room
    active = cluster.active()
    with open(os.path.join(mounts[0], "before"), "w") as file:
        file.write("kept")
    stopped = answered(cluster, "stop")
    assert stopped == {"stopped": "reel", "sessions": len(cluster.clients)}
    # Nobody serves it, restarts change nothing, and commands say what to do.
    for mdc in cluster.mdcs:
        cluster.kill(mdc, "TERM")
        cluster.start(mdc)
    volumes = answered(cluster, "volumes")["volumes"][0]
    assert volumes["role"] == "standby" and volumes["stopped"]
    assert "reeladm start" in refused(cluster, 1, "who")
    assert "reeladm start" in refused(cluster, 1, "stop")
    assert "reeladm start" in refused(cluster, 1, "activate")
    # Programs wait.
    made = os.path.join(mounts[1], "after")
    waits = threading.Thread(target=lambda: open(made, "w").close())
    waits.start()
    # A check is possible meanwhile, and leaves it stopped.
    config = os.path.join(cluster.dir, "hosts", "mdc1", "mdc.toml")
    assert cluster.tool("fsck.reelfs", "reel", "--config", config).returncode == 0
    assert waits.is_alive()
    assert answered(cluster, "volumes")["volumes"][0]["stopped"]
    target = other(cluster, active)
    where = addresses(cluster)[target]
    assert answered(cluster, "start", where)["active"] == where
    assert answered(cluster, "start")["active"] == where  # it serves already
    waits.join(timeout=60)
    assert not waits.is_alive() and os.path.exists(made)
    with open(os.path.join(mounts[1], "before")) as file:
        assert file.read() == "kept"
    assert "an administrator has stopped it" in cluster.log("ws1")
    assert cluster.active() == target
    assert not answered(cluster, "volumes")["volumes"][0]["stopped"]


def test_in_maintenance_nobody_takes_over_by_itself(cluster, room):
    here = room[0]
    settle(cluster)
    active = cluster.active()
    standby = other(cluster, active)
    where = addresses(cluster)
    assert answered(cluster, "maintenance") == {"name": "reel", "maintenance": False}
    assert answered(cluster, "maintenance", "on") == {"name": "reel", "maintenance": True}
    assert answered(cluster, "show")["maintenance"]
    assert "activate" in refused(cluster, 1, "fail")
    # No new mounts; those that there are go on.
    cluster.kill("ws2", "TERM")
    assert "maintenance off" in cluster.lab_fails("start", "ws2")
    os.mkdir(os.path.join(here, "on"))
    # The active one may go and come back, in order or not, and is active again.
    for name in ("TERM", "KILL"):
        cluster.kill(active, name)
        cluster.start(active)
        assert cluster.active() == active
    assert answered(cluster, "maintenance")["maintenance"], "it lasts"
    # It is gone for good: the standby waits to be told.
    cluster.kill(active)
    seen = answered(cluster, "volumes", mdcs=[standby])["volumes"][0]
    assert seen["role"] == "standby" and seen["maintenance"]
    assert answered(cluster, "activate", where[standby])["active"] == where[standby]
    cluster.start(active)
    assert cluster.active() == standby
    # And by name, in order.
    assert answered(cluster, "activate", where[active])["active"] == where[active]
    assert answered(cluster, "maintenance", "off") == {"name": "reel", "maintenance": False}
    cluster.start("ws2")
    cluster.kill(active)
    os.mkdir(os.path.join(here, "off"))  # waits for the standby
    assert cluster.active() == standby
    cluster.start(active)


def test_unknown_arguments_are_usage_errors(cluster):
    for words in (("maintenance", "maybe"), ("activate", "a b"), ("start", ":1"), ("stop", "now")):
        refused(cluster, 2, *words)
    assert "does reel-mdcd run there" in refused(cluster, 3, "activate", "127.0.0.1:1")
    assert "9999" in cluster.tool("reeladm", "--mdc", "127.0.0.1:9999,127.0.0.1:9998",
                                  "volumes").stderr


def test_a_stopped_volume_may_be_repaired_beside_its_standbys(cluster):
    """(That they keep off meanwhile is mdc/serve/tool_seat_test.cc's.)"""
    answered(cluster, "stop")
    config = os.path.join(cluster.dir, "hosts", "mdc1", "mdc.toml")
    try:
        done = cluster.tool("fsck.reelfs", "reel", "-y", "--config", config)
        assert done.returncode == 0, done.stderr
        assert answered(cluster, "volumes")["volumes"][0]["stopped"], "it is given back as it was"
    finally:
        answered(cluster, "start")
    # One that serves is not repaired, and no LUN of it is taken for another volume.
    done = cluster.tool("fsck.reelfs", "reel", "-y", "--config", config)
    assert done.returncode == 8 and "in use" in done.stderr


class Manager:
    """A service manager's end of NOTIFY_SOCKET: what the daemon says, in its order."""

    def __init__(self):
        self.name = f"reelfs-hands-{os.getpid()}-{secrets.token_hex(8)}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name)
        self.socket.settimeout(60)

    def environment(self, watchdog_seconds):
        return {**os.environ, "NOTIFY_SOCKET": "@" + self.name,
                "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6))}

    def await_word(self, word):
        while word not in self.socket.recv(8192).decode().split("\n"):
            pass


def test_a_service_manager_gets_signs_of_life(cluster):
    """Of an active controller, of a standby, and of one that has begun anew."""
    settle(cluster)
    standby = other(cluster, cluster.active())
    cluster.kill(standby, "TERM")
    config = os.path.join(cluster.dir, "hosts", standby, "mdc.toml")
    manager = Manager()
    daemon = subprocess.Popen([os.path.join(cluster.bin, "reel-mdcd"), "--config", config],
                              env=manager.environment(watchdog_seconds=2), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        where = addresses(cluster)
        manager.await_word("READY=1")
        for _ in range(3):
            manager.await_word("WATCHDOG=1")
        assert answered(cluster, "activate", where[standby])["active"] == where[standby]
        manager.await_word("STATUS=active of reel")
        for _ in range(3):
            manager.await_word("WATCHDOG=1")
        active = other(cluster, standby)
        assert answered(cluster, "activate", where[active])["active"] == where[active]
        manager.await_word("READY=1")
        for _ in range(3):
            manager.await_word("WATCHDOG=1")
        daemon.terminate()
        manager.await_word("STOPPING=1")
        assert daemon.wait(timeout=60) == 0
    finally:
        daemon.kill()
        daemon.wait()
        cluster.start(standby)
