"""A mount of fstab is there after every boot, in whatever order the machines of a cluster come up;
what was written is on the LUNs before the network goes at shutdown."""
import os
import subprocess

import pytest

import booted_host
from cluster import TOP, until

pytestmark = pytest.mark.skipif(booted_host.why_not() is not None,
                                reason=str(booted_host.why_not()))

UNIT = "mnt-reel.mount"
BYTES = os.urandom(1 << 20) * 48
READY_LINE = "_netdev,nofail,x-systemd.mount-timeout=infinity"  # as docs/operations.md has it


@pytest.fixture
def boots(cluster, request):
    """Makes a host with that fstab line."""
    made = []

    def boot(options, units=None, start=True):
        directory = os.path.join(cluster.scratch, f"{request.node.name}-{len(made)}")
        where = f"mdc={cluster.hosts()['mdc1']['where']},luns={cluster.luns()}," \
                f"config={cluster.own_config()}"
        host = booted_host.BootedHost(
            directory, fstab=f"reel /mnt/reel reelfs {where},{options} 0 0\n", units=units)
        made.append(host)
        if start:
            host.boot()
        return host

    yield boot
    for host in made:
        host.down()


def waiting_lines(host, what):
    return [line for line in host.journal(UNIT) if f"waiting for {what}" in line]


def shuts_down_with_all_bytes_on_the_luns(host, room):
    with open(host.path(f"/mnt/reel/{os.path.basename(room[0])}/file"), "wb") as file:
        file.write(BYTES)
    assert host.power_off()[-2:] == ["iscsi", "network"], "the client outlived the path to the LUNs"
    with open(f"{room[1]}/file", "rb") as file:
        assert file.read() == BYTES


def test_a_mount_waits_for_a_controller_and_holds_up_no_login(cluster, room, boots):
    cluster.kill("mdc1")
    try:
        host = boots(READY_LINE)
        host.expect("logins")
        line = host.await_line(UNIT, "waiting for a controller")
        assert "no controller serves volume reel" in line
        assert host.state(UNIT) == "activating"
    finally:
        cluster.start("mdc1")
    host.run("systemctl", "start", UNIT)  # returns when it is mounted
    assert len(waiting_lines(host, "a controller")) == 1, host.journal(UNIT)
    shuts_down_with_all_bytes_on_the_luns(host, room)


def test_a_mount_waits_for_luns_without_a_session(cluster, boots):
    sessions = len(cluster.reeladm("who")["sessions"])
    lun = os.path.join(cluster.dir, "luns", "data1.img")
    os.rename(lun, f"{lun}.away")
    try:
        host = boots(READY_LINE)
        assert "LUN data1" in host.await_line(UNIT, "waiting for LUNs")
        host.expect("logins")
        assert len(cluster.reeladm("who")["sessions"]) == sessions
        assert host.state(UNIT) == "activating"
    finally:
        os.rename(f"{lun}.away", lun)
    host.run("systemctl", "start", UNIT)
    assert len(waiting_lines(host, "LUNs")) == 1, host.journal(UNIT)
    assert len(cluster.reeladm("who")["sessions"]) == sessions + 1
    host.power_off()


def test_controller_and_workstation_find_no_luns(cluster, room, boots):
    lun = os.path.join(cluster.dir, "luns", "data1.img")
    cluster.kill("mdc1", "TERM")
    os.rename(lun, f"{lun}.away")
    try:
        host = boots(READY_LINE)
        host.await_line(UNIT, "waiting for a controller")
        cluster.start("mdc1")  # counts as started
        assert "LUN data1" in cluster.log("mdc1").rsplit("--- lab", 1)[1]
        assert host.state(UNIT) == "activating"
    finally:
        os.rename(f"{lun}.away", lun)
    host.run("systemctl", "start", UNIT)
    assert os.path.isdir(host.path(f"/mnt/reel/{os.path.basename(room[0])}"))
    host.power_off()


def test_a_host_that_still_waits_shuts_down_at_once(cluster, boots):
    cluster.kill("mdc1")
    try:
        host = boots(READY_LINE)
        host.await_line(UNIT, "waiting for a controller")
        assert "network" in host.power_off(20)[-1]
    finally:
        cluster.start("mdc1")


def test_the_example_unit(cluster, room, boots):
    with open(os.path.join(TOP, "deploy/systemd/mnt-reel.mount"), encoding="utf-8") as file:
        host = boots("noauto", units={UNIT: file.read()}, start=False)
    host.write("etc/reelfs/client.toml",
               f'mdc = ["{cluster.where("mdc1")}"]\nluns = ["{cluster.luns()}"]\n')
    host.enable(UNIT, "remote-fs.target")
    host.boot()
    host.run("systemctl", "start", UNIT)
    shuts_down_with_all_bytes_on_the_luns(host, room)


with_autofs = pytest.mark.skipif(not os.path.exists("/dev/autofs"), reason="no autofs here")
AUTOMOUNT = "_netdev,nofail,x-systemd.automount,x-systemd.mount-timeout="


@with_autofs
def test_an_automount_gives_up_and_tries_again(cluster, room, boots):
    path = f"/mnt/reel/{os.path.basename(room[0])}"
    cluster.kill("mdc1")
    try:
        host = boots(AUTOMOUNT + "5")
        host.expect("logins")
        assert host.state(UNIT) == "inactive", "nobody has been there"
        assert "No such device" in host.run("ls", path, check=False)
    finally:
        cluster.start("mdc1")
    for _ in range(20):  # a busy machine may need more than one try
        shown = host.run("ls", path, check=False)
        if shown == "" and host.state(UNIT) == "active":
            break
    assert shown == "", host.journal("mnt-reel.automount") + host.journal(UNIT)
    shuts_down_with_all_bytes_on_the_luns(host, room)


@with_autofs
def test_an_automount_waits_for_a_controller(cluster, room, boots):
    cluster.kill("mdc1")
    try:
        host = boots(AUTOMOUNT + "infinity")
        visitor = subprocess.Popen(host.inside("ls", f"/mnt/reel/{os.path.basename(room[0])}"))
        host.await_line(UNIT, "waiting for a controller")
        assert visitor.poll() is None
    finally:
        cluster.start("mdc1")
    assert visitor.wait(60) == 0
    host.power_off()


def test_a_mount_by_hand_goes_before_the_network(cluster, room, boots):
    host = boots("noauto,_netdev", start=False)
    with open(f"{host.dir}/etc/fstab", encoding="utf-8") as file:
        options = file.read().split()[3]
    host.write("etc/fstab", "")
    host.boot()
    host.run("mkdir", "/mnt/reel")
    host.run("mount", "-t", "reelfs", "reel", "/mnt/reel", "-o",
             options.replace(",noauto,_netdev", ""))
    # systemd reads that a mount is of the network up to a second after the mount is there.
    until(lambda: "remote-fs-pre.target" in host.run("systemctl", "show", "-P", "After",
                                                     UNIT).split())
    shuts_down_with_all_bytes_on_the_luns(host, room)
