"""Hosts in network namespaces of their own: what is cut is cut, what a lost LAN and a lost SAN of
the active controller cost, and that nothing stays behind."""
import errno
import json
import os
import signal
import subprocess
import threading

import failover
from cluster import LAB, run, until

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "backend": "netns", "lun_backend": "iscsi",
           "lun_delays": True, "luns": "meta=1x1G,data=2x512M"}
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()"


def reaches(cluster, host, where):
    """Whether `host` can connect to an address."""
    done = subprocess.run([*cluster.lab_command("exec"), "--host", host, "--", "/usr/bin/python3",
                           "-c", CONNECT, *where.rsplit(":", 1)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60)
    return done.returncode == 0


def test_a_cut_is_of_one_host_and_one_net_and_heals(cluster):
    hosts = cluster.hosts()
    mdc, san = hosts["mdc1"]["where"], hosts["san1"]["where"]
    assert reaches(cluster, "ws2", mdc) and reaches(cluster, "ws2", san)
    cluster.lab("partition", "ws2", "lan")
    assert cluster.hosts()["ws2"]["cut"] == ["lan"]
    assert not reaches(cluster, "ws2", mdc) and reaches(cluster, "ws2", san)
    assert reaches(cluster, "ws1", mdc)
    cluster.lab("partition", "ws2", "lan", "--heal")
    cluster.lab("partition", "ws2", "san")
    assert reaches(cluster, "ws2", mdc) and not reaches(cluster, "ws2", san)
    cluster.lab("partition", "ws2", "san", "--heal")
    assert reaches(cluster, "ws2", san)
    assert all(host["cut"] == [] for host in cluster.hosts().values())


def test_a_paused_host_goes_on(cluster, room):
    cluster.lab("pause", "ws2")
    with open(os.path.join(room[0], "file"), "w") as file:
        file.write("while the other one stands still")
    cluster.lab("resume", "ws2")
    with open(os.path.join(room[1], "file")) as file:
        assert file.read() == "while the other one stands still"


def test_a_workstation_cut_off_the_luns_holds_up_no_other(cluster, room):
    old = b"." * 100_000 + b"synced"  # (a small file needs no LUN)
    with open(os.path.join(room[0], "dirty"), "wb", buffering=0) as file:
        file.write(old)
        os.fsync(file.fileno())
        cluster.lab("partition", "ws1", "san")
        try:
            file.write(b", and not synced")
            with open(os.path.join(room[1], "dirty"), "rb") as other:
                assert other.read().rstrip(b"\0") == old
            # Before any child: what closes it there is told instead.
            try:
                os.fsync(file.fileno())
                assert False, "what was lost is not told"
            except OSError as error:
                assert error.errno == errno.EIO
            alarms = cluster.alarms()
            assert any("/ws1 was evicted: it does not reach a LUN" in line
                       for line in alarms), alarms
        finally:
            cluster.lab("partition", "ws1", "san", "--heal")
        os.fsync(file.fileno())
    with open(os.path.join(room[0], "dirty"), "ab", buffering=0) as file:
        file.write(b"; again")
    with open(os.path.join(room[1], "dirty"), "rb") as file:
        assert file.read().replace(b"\0", b"") == old + b"; again"


def test_an_active_controller_cut_off_its_clients_gives_the_seat_up(cluster):
    told = failover.drill(cluster, "cut-lan")
    old = told["active"]["before"]
    assert told["active"]["after"] != old
    assert told["ended"] == []
    assert "none of its clients is heard" in cluster.log(old)


def test_a_controller_that_got_the_seat_back_unheard_offers_it_again(cluster, room):
    """Where nobody follows one that its clients do not reach: who comes later is to be let in."""
    old = cluster.active()
    other, = {"mdc1", "mdc2"} - {old}
    cluster.kill(other)
    told = cluster.log(old).count("has the seat")
    cluster.lab("partition", old, "lan")
    until(lambda: cluster.log(old).count("has the seat") > told)
    cluster.start(other)
    with open(os.path.join(room[0], "file"), "w") as file:
        file.write("with the other one")
    assert cluster.active() == other
    cluster.lab("partition", old, "lan", "--heal")
    with open(os.path.join(room[1], "file")) as file:
        assert file.read() == "with the other one"


def test_an_active_controller_cut_off_the_luns_ends(cluster):
    told = failover.drill(cluster, "cut-san")
    assert told["active"]["after"] != told["active"]["before"]
    assert told["ended"] == [told["active"]["before"]]


def test_a_slow_lun_is_only_slow(cluster):
    told = failover.drill(cluster, "disk-slow")
    assert told["ended"] == []


def test_both_are_killed_and_one_comes_back(cluster):
    told = failover.drill(cluster, "kill-both")
    assert told["active"]["after"] != told["active"]["before"]


def test_one_after_the_other_is_killed(cluster):
    told = failover.drill(cluster, "kill-active-twice")
    assert told["active"]["after"] == told["active"]["before"]


def namespaces():
    return set(run("ip", "netns", "list").split())


def test_an_interrupted_up_is_taken_down_without_a_trace(cluster):
    directory = os.path.join(cluster.scratch, "interrupted")
    before = namespaces()
    up = subprocess.Popen(
        [LAB, "up", "--dir", directory, "--bin", cluster.bin, "--backend", "netns", "--lun-backend",
         "iscsi", "--lun-delays", "--clients", "1", "--luns", "meta=1x1G,data=1x1G"],
        stdin=subprocess.DEVNULL)
    pid_path = os.path.join(directory, "hosts", "mdc1", "pid")
    while up.poll() is None and not os.path.exists(pid_path):
        threading.Event().wait(0.01)
    up.send_signal(signal.SIGKILL)
    up.wait()
    assert namespaces() > before
    with open(os.path.join(directory, "lab.json")) as file:
        iqn = json.load(file)["targets"]["san1"]["iqn"]
    run(LAB, "down", "--dir", directory)
    assert namespaces() == before
    assert not os.path.exists(directory)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                assert directory not in (words := file.read()) and iqn not in words, words
        except (FileNotFoundError, ProcessLookupError):
            pass
