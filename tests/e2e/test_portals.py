"""A target with two portals: hosts go on by the other one when one is lost, if they still may."""
import os
import re

import pytest

from cluster import until
from overwriting import FileWriters, begin, open_writer, read_file, SIZE, stop, write_file

# A term that outlasts a portal's silence, as a real one does.
CLUSTER = {"lun_backend": "iscsi", "portals": 2, "mdcs": 2, "seat_ms": 10_000,
           "luns": "meta=1x1G,data=2x512M"}
PORTALS = ("portal1", "portal2")
DATA = ("data1", "data2")


@pytest.fixture(autouse=True)
def all_hosts_run(cluster):
    yield
    hosts = cluster.hosts()
    for host in (*PORTALS, "ws1"):
        if hosts[host]["pid"]:
            cluster.kill(host, "CONT")
    bring_back(cluster)


def bring_back(cluster, portals=PORTALS):
    """All that has ended: portals, and controllers that lost the path to their metadata, also those
    that find that out only now."""
    def all_run():
        for host in (*portals, *cluster.mdcs, "ws1", "ws2"):
            cluster.start(host)
        hosts = cluster.hosts()
        return sorted(hosts[mdc]["role"] for mdc in cluster.mdcs) == ["active", "standby"]
    until(all_run)


def portals_of(cluster, host):
    """By LUN for data: the portal by which the host's path goes, as its log says. It began with the
    first one of the address, if that answered: all did."""
    hosts = cluster.hosts()
    names = {hosts[portal]["where"]: portal for portal in PORTALS}
    moved = re.findall(r"/(\d+): goes (?:on )?by portal (\S+)", cluster.log(host))
    return {**dict.fromkeys(("2", "3"), PORTALS[0]),
            **{lun: names[portal] for lun, portal in moved if lun != "1"}}


def the_portal_of(cluster, host):
    (portal,) = set(portals_of(cluster, host).values())
    return portal


def goes_by(cluster, host, portal):
    return set(portals_of(cluster, host).values()) == {portal}


def other(portal):
    return PORTALS[1 - PORTALS.index(portal)]


def keys(cluster):
    return [key for lun in cluster.reeladm("reservations")["luns"] for key in lun["keys"]]


@pytest.mark.seconds(200)
def test_programs_go_on_by_the_other_portal_and_come_back_by_the_first(cluster, room):
    for folder in (f"{room[0]}/a", f"{room[0]}/b"):
        os.mkdir(folder)
    before = cluster.session_of("ws1"), cluster.session_of("ws2")
    writers = FileWriters(f"{room[0]}/a", f"{room[1]}/b")
    until(lambda: writers.went_on(0))
    for _ in range(2):
        lost = the_portal_of(cluster, "ws1")
        cluster.kill(lost)
        until(lambda: writers.errors or goes_by(cluster, "ws1", other(lost)))
        so_far = writers.done
        until(lambda: writers.went_on(so_far))
        assert f"by portal {cluster.hosts()[lost]['where']} is lost" in cluster.log("ws1")
        bring_back(cluster)
    writers.check(room[0], room[1])
    assert (cluster.session_of("ws1"), cluster.session_of("ws2")) == before
    assert all(not key["owner"].startswith("a session that is over") for key in keys(cluster))


@pytest.mark.seconds(200)
def test_a_portal_that_no_path_goes_by_is_missed(cluster):
    reserve = other(the_portal_of(cluster, "ws1"))
    cluster.kill(reserve)
    bring_back(cluster, portals=[])
    where = cluster.where(reserve)
    until(lambda: any(f"portal {where}: does not answer" in alarm
                      for alarm in cluster.alarms()))
    cluster.start(reserve)
    until(lambda: not any(where in alarm for alarm in cluster.alarms()))


@pytest.mark.seconds(200)
def test_a_portal_that_falls_silent_is_left(cluster, room):
    """Its connections stand, and nothing comes: long before a command's time is over."""
    writers = FileWriters(room[0])
    until(lambda: writers.went_on(0))
    lost = the_portal_of(cluster, "ws1")
    cluster.kill(lost, "STOP")
    until(lambda: writers.errors or goes_by(cluster, "ws1", other(lost)))
    so_far = writers.done
    until(lambda: writers.went_on(so_far))
    assert "the portal is silent" in cluster.log("ws1")
    cluster.kill(lost, "CONT")  # it hands on what it had
    bring_back(cluster)
    so_far = writers.done
    until(lambda: writers.went_on(so_far))
    writers.check(room[0], room[1])


@pytest.mark.seconds(200)
def test_a_host_that_was_fenced_does_not_come_back_by_another_portal(cluster, room):
    """It stands still with writes on its way, is evicted, and wakes with its portal lost."""
    path = f"{room[0]}/file"
    write_file(path, b"0")
    session, pid = cluster.session_of("ws1"), cluster.hosts()["ws1"]["pid"]
    writing = open_writer(path, "A")
    try:
        begin(writing)
        stop(pid)
        cluster.reeladm("evict", str(session))
        write_file(f"{room[1]}/file", b"B")  # waits for the fence
        cluster.kill(the_portal_of(cluster, "ws1"))
        assert read_file(f"{room[1]}/file") == b"B" * SIZE  # ws2 goes by the other portal
        os.unlink(f"{room[1]}/file")
        held = cluster.lun_digest(*DATA)
        cluster.kill("ws1", "CONT")
        for mdc in cluster.mdcs:
            cluster.start(mdc)
        until(lambda: cluster.session_of("ws1") not in (None, session))
        assert writing.wait(timeout=60) != 0
        assert cluster.lun_digest(*DATA) == held, "the woken host changed what is not its own"
        owners = [key["owner"] for key in keys(cluster)]
        assert not any(f"session {session} of" in owner for owner in owners), owners
        after = f"session {cluster.session_of('ws1')} of"
        until(lambda: sum(key["owner"].startswith(after) for key in keys(cluster)) == len(DATA))
    finally:
        writing.kill()
        writing.wait()
