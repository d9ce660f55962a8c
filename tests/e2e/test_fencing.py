"""Hosts that stop and wake up, lost paths, controllers that die: on LUNs that can fence."""
import errno
import os
import signal

import pytest

from cluster import run, until
from overwriting import (FileWriters, Holder, SIZE, begin, open_writer, read_file, stop,
                         write_file)

CLUSTER = {"lun_backend": "iscsi", "luns": "meta=1x1G,data=2x512M"}
DATA = ("data1", "data2")


@pytest.fixture(autouse=True)
def all_programs_run(cluster):
    yield
    hosts = cluster.hosts()
    for host in ("ws1", "ws2"):
        if hosts[host]["pid"]:
            os.kill(hosts[host]["pid"], signal.SIGCONT)
    for host in ("san1", "mdc1", "ws1", "ws2"):
        cluster.start(host)


def images(cluster):
    return cluster.lun_digest(*DATA)


def keys(cluster):
    """By LUN: key → owner."""
    return {lun["name"]: {key["key"]: key["owner"] for key in lun["keys"]}
            for lun in cluster.reeladm("reservations")["luns"]}


@pytest.fixture
def writer():
    started = []

    def start(path, byte):
        started.append(open_writer(path, byte))
        begin(started[-1])
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.seconds(150)
def test_every_host_is_registered_under_its_own_key(cluster):
    write_file(f"{cluster.ws1}/registered", b"r")
    registered = keys(cluster)
    assert set(registered) == {"meta1", "data1", "data2"}
    assert list(registered.pop("meta1").values()) == ["controller"]
    for name, owners in registered.items():
        assert sorted(owner.split(" ")[0] for owner in owners.values()) == \
            ["controller", "session", "session"], (name, owners)
    assert cluster.reeladm("show")["fencing"] == "reservations"
    assert cluster.alarms() == []


@pytest.mark.seconds(150)
def test_a_stopped_writer_is_fenced_and_wakes_up_to_an_error(cluster, room, writer):
    """Its writes would be done again under its next session: but the file is gone by then, and its
    blocks are nobody's to write."""
    path, held_path = f"{room[0]}/file", f"{room[0]}/held"
    write_file(path, b"0")
    write_file(held_path, b"0")
    before, pid = cluster.session_of("ws1"), cluster.hosts()["ws1"]["pid"]
    with Holder(held_path) as holder:
        writing = writer(path, "A")
        assert holder.write("A", 1) == 0  # unsynced
        stop(pid)  # with writes on their way
        write_file(f"{room[1]}/file", b"B")  # waits for the lease and the fence
        assert cluster.session_of("ws1") is None
        assert read_file(f"{room[1]}/file") == b"B" * SIZE
        assert all(f"session {before} of" not in owner
                   for lun in keys(cluster).values() for owner in lun.values())
        os.unlink(f"{room[1]}/file")
        held = images(cluster)

        cluster.kill("ws1", "CONT")
        until(lambda: cluster.session_of("ws1") is not None)
        assert writing.wait(timeout=60) != 0  # each of its threads got an error
        assert images(cluster) == held, "the woken host changed what is not its own"
        after = cluster.session_of("ws1")
        assert after != before
        assert holder.fsync() == errno.EIO
        assert holder.fsync() == 0
        assert holder.write("C", SIZE) == 0  # without a new mount
        assert holder.fsync() == 0
    assert read_file(f"{room[1]}/held") == b"C" * SIZE
    owners = [owner for lun in keys(cluster).values() for owner in lun.values()]
    assert sum(owner.startswith(f"session {after} of") for owner in owners) == len(DATA)


@pytest.mark.seconds(150)
def test_an_administrator_evicts(cluster, room):
    path = f"{room[0]}/file"
    write_file(path, b"0")
    before = cluster.session_of("ws1")
    client = cluster.hosts()["ws1"]["pid"]
    with Holder(path) as holder:
        assert holder.write("1", 1) == 0
        os.kill(client, signal.SIGSTOP)  # before it has committed that
        assert cluster.reeladm("evict", str(before)) == {"evicted": before}
        os.kill(client, signal.SIGCONT)
        until(lambda: cluster.session_of("ws1") not in (None, before))
        assert holder.fsync() == errno.EIO
        assert holder.write("2", 1) == 0
        assert holder.fsync() == 0
    assert read_file(f"{room[1]}/file")[:1] == b"2"


@pytest.mark.seconds(150)
def test_a_target_that_is_killed_under_writes_costs_time_and_no_byte(cluster, room):
    """The controller ends with its metadata LUN, and is started again."""
    for folder in (f"{room[0]}/a", f"{room[0]}/b"):
        os.mkdir(folder)
    writers = FileWriters(f"{room[0]}/a", f"{room[1]}/b")
    until(lambda: writers.went_on(0))
    before = (cluster.session_of("ws1"), cluster.session_of("ws2"))
    cluster.kill("san1")
    until(lambda: cluster.hosts()["mdc1"]["pid"] is None)
    cluster.start("san1")
    cluster.start("mdc1")
    so_far = writers.done
    until(lambda: writers.went_on(so_far))
    writers.check(room[0], room[1])
    assert (cluster.session_of("ws1"), cluster.session_of("ws2")) == before


def cut_paths(cluster, host):
    """Ends the host's connections to the target, as a network would. How many."""
    portal = cluster.hosts()["san1"]["where"]
    pid = cluster.hosts()[host]["pid"]
    listed = run("ss", "-tnpH", "state", "established", "dst", portal)
    ports = [line.split()[2].rsplit(":", 1)[1] for line in listed.splitlines()
             if f"pid={pid}," in line]
    for port in ports:
        run("ss", "-KtnH", "sport", "=", f":{port}", "dst", portal)
    return len(ports)


@pytest.mark.seconds(150)
def test_cut_paths_of_one_host_cost_no_error_and_no_byte(cluster, room):
    writers = FileWriters(room[0])
    until(lambda: writers.went_on(0))
    before = cluster.session_of("ws1")
    for _ in range(5):
        registered = cluster.log("ws1").count("registered with key")
        assert cut_paths(cluster, "ws1") > 0
        until(lambda: writers.errors or
              cluster.log("ws1").count("registered with key") > registered)
        so_far = writers.done
        until(lambda: writers.went_on(so_far))
    writers.check(room[0], room[1])
    assert cluster.session_of("ws1") == before


@pytest.mark.seconds(150)
def test_a_controller_that_is_killed_leaves_sessions_as_they_are(cluster, room, writer):
    path = f"{room[0]}/file"
    write_file(path, b"0")
    before = cluster.session_of("ws1")
    held = keys(cluster)
    writer(path, "A")
    cluster.kill("mdc1")
    cluster.start("mdc1")
    until(lambda: cluster.session_of("ws1") is not None)
    assert cluster.session_of("ws1") == before
    write_file(f"{room[0]}/other", b"x")
    now = keys(cluster)
    for name, owners in held.items():
        sessions = {key for key, owner in owners.items() if owner.startswith("session")}
        controllers = {key for key, owner in owners.items() if owner == "controller"}
        assert sessions <= set(now[name]) and not controllers & set(now[name]), (name, now)


@pytest.mark.seconds(150)
def test_a_client_that_is_killed_and_mounted_anew(cluster, room):
    path = f"{room[0]}/file"
    write_file(path, b"0")
    cluster.kill("ws1")
    cluster.start("ws1")
    write_file(f"{room[0]}/new", b"n")
    write_file(path, b"1")  # when the dead one's lease is over
    assert read_file(f"{room[1]}/file") == b"1" * SIZE
    owner = f"session {cluster.session_of('ws1')} of"
    registered = keys(cluster)
    for name in DATA:
        assert any(other.startswith(owner) for other in registered[name].values()), registered
        assert "a session that is over" not in registered[name].values()


@pytest.mark.seconds(150)
def test_an_eviction_survives_its_controller(cluster, room, writer):
    path = f"{room[0]}/file"
    write_file(path, b"0")
    before = cluster.session_of("ws1")
    writing = writer(path, "A")
    cluster.kill("ws1", "STOP")
    cluster.reeladm("evict", str(before))
    cluster.kill("mdc1")
    cluster.start("mdc1")
    write_file(f"{room[1]}/file", b"B")
    os.unlink(f"{room[1]}/file")
    held = images(cluster)
    cluster.kill("ws1", "CONT")
    until(lambda: cluster.session_of("ws1") not in (None, before))
    assert writing.wait(timeout=60) != 0
    assert images(cluster) == held


@pytest.mark.seconds(150)
def test_unmounted_hosts_and_a_stopped_controller_leave_nothing_behind(cluster):
    for host in ("ws1", "ws2"):
        cluster.kill(host, "TERM")
    for owners in keys(cluster).values():
        assert list(owners.values()) == ["controller"]
    url = cluster.reeladm("show")["pools"][0]["luns"][0]["path"]
    refused = cluster.tool("reel-label", "unreserve", url)
    assert refused.returncode == 1 and "controller of its volume" in refused.stderr
    cluster.kill("mdc1", "TERM")
    listed = cluster.tool("reel-label", "reservations", url)
    assert listed.returncode == 0 and "nobody is registered" in listed.stdout, listed
