"""Programs of two releases side by side: rolling upgrades in either order, and ranges that do not
meet.

The programs are those of build/PRESET/failing, which speak what REEL_PROTOCOL says when they are
started (tests/failing/speak_protocol.cc). "1-1" is a release of before versions were negotiated.
"""
import contextlib
import json
import os
import subprocess
import sys

import pytest

from cluster import FAILING, LAB, Cluster

OLD, NEW = "1-1", "1-2"
LOAD = os.path.join(os.path.dirname(LAB), "drill_load.py")
FRAME_BYTES = 256 << 10


@contextlib.contextmanager
def speaking(versions):
    """Whatever is started within speaks these."""
    before = os.environ.get("REEL_PROTOCOL")
    os.environ["REEL_PROTOCOL"] = versions
    try:
        yield
    finally:
        if before is None:
            del os.environ["REEL_PROTOCOL"]
        else:
            os.environ["REEL_PROTOCOL"] = before


@pytest.fixture(scope="module")
def cluster():
    with speaking(OLD):
        # As the manual says: an older controller cannot do again what a newer one had told.
        made = Cluster(bin=FAILING, mdcs=2, seat_ms=1500, luns="meta=1x1G,data=2x1G",
                       names="durable", small_file_bytes=0)
    try:
        yield made
        made.fsck()
    finally:
        made.down()


class Load:
    """Programs at work in a mount, which must not see an error."""

    def __init__(self, mount, name):
        self.programs = []
        directory = os.path.join(mount, name)
        os.makedirs(directory)
        with open(f"{directory}/lock", "wb"):
            pass
        for what in (["create", directory], ["lock", f"{directory}/lock", "0"],
                     ["stream", f"{directory}/stream", str(FRAME_BYTES)]):
            self.programs.append(subprocess.Popen(
                [sys.executable, "-B", LOAD, *what],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for program in self.programs:
            assert program.stdout.readline(), "it did not begin"

    def stop(self):
        for program in self.programs:
            told = program.communicate(timeout=60)[0].splitlines()
            errors = [line for line in told if json.loads(line)["error"]]
            assert told and not errors, errors
            assert program.returncode == 0


@contextlib.contextmanager
def load(cluster, *mounts):
    name = f"load{len(os.listdir(mounts[0]))}"
    programs = [Load(mount, f"{name}-{n}") for n, mount in enumerate(mounts)]
    yield
    for program in programs:
        program.stop()


def spoken(cluster):
    """What each client speaks with the active controller."""
    return {os.path.basename(session["mount_point"]): session["protocol"]
            for session in cluster.reeladm("who")["sessions"]}


def exchange(cluster, host, versions):
    """As an upgrade does, or a downgrade: another program, started in place of the old one."""
    cluster.kill(host, "TERM")
    with speaking(versions):
        cluster.start(host)


def exchange_controllers(cluster, versions):
    """The standby first; then the active one, after it has handed over."""
    active = cluster.active()
    standby = next(mdc for mdc in cluster.mdcs if mdc != active)
    exchange(cluster, standby, versions)
    cluster.lab("fail")
    assert cluster.active() == standby
    exchange(cluster, active, versions)


def test_controllers_first_under_load(cluster):
    with load(cluster, *cluster.mounts):
        exchange_controllers(cluster, NEW)
        cluster.lab("fail")  # and what hands over is new as well
    assert spoken(cluster) == {"ws1": 1, "ws2": 1}
    for client in cluster.clients:
        exchange(cluster, client, NEW)
    assert spoken(cluster) == {"ws1": 2, "ws2": 2}


def test_clients_first_under_load_on_the_other(cluster):
    for client in cluster.clients:
        exchange(cluster, client, OLD)
    exchange_controllers(cluster, OLD)
    for mine, other in ((0, 1), (1, 0)):
        with load(cluster, cluster.mounts[other]):
            exchange(cluster, cluster.clients[mine], NEW)
    assert spoken(cluster) == {"ws1": 1, "ws2": 1}
    with load(cluster, *cluster.mounts):
        exchange_controllers(cluster, NEW)
        # A session that goes on after a failover speaks what the new controller knows, ...
        assert spoken(cluster) == {"ws1": 2, "ws2": 2}
        # ... and less again with an older one.
        exchange_controllers(cluster, OLD)
    assert spoken(cluster) == {"ws1": 1, "ws2": 1}


def refused(cluster, versions):
    """What a mount and reeladm say that speak these."""
    active = cluster.where(cluster.active())
    with speaking(versions):
        return (cluster.lab_fails("start", "ws2"),
                cluster.tool("reeladm", "--mdc", active, "volumes"))


def test_ranges_that_do_not_meet_are_named_on_both_sides(cluster):
    exchange_controllers(cluster, OLD)
    cluster.kill("ws2", "TERM")
    told, admin = refused(cluster, "2-3")
    # What an old controller answers is its own affair; that it names both is not.
    assert "2 to 3" in told and "1" in told
    assert admin.returncode == 1
    assert "this reeladm speaks 2 to 3" in admin.stderr and "upgrade reel-mdcd" in admin.stderr
    exchange_controllers(cluster, NEW)
    told, admin = refused(cluster, "3-4")
    for text in (told, cluster.log(cluster.active())):
        assert "speaks 3 to 4" in text and "speaks 1 to 2; upgrade reel-mdcd on" in text, text
    assert admin.returncode == 1 and len(admin.stderr.strip().splitlines()) == 1
    assert "speaks 3 to 4" in admin.stderr and "speaks 1 to 2; upgrade" in admin.stderr
    cluster.start("ws2")


def test_a_controller_takes_nothing_over_from_one_that_it_does_not_understand(cluster):
    active = cluster.active()
    standby = next(mdc for mdc in cluster.mdcs if mdc != active)
    cluster.kill(standby, "TERM")
    with speaking("3-4"):
        told = cluster.lab_fails("start", standby)
    assert "speaks 1 to 2" in told and "speaks 3 to 4" in told, told
    assert cluster.active() == active
    cluster.start(standby)
