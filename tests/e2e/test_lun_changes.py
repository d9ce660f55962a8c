"""LUNs that change while they are in use: enlarged, cut, new, and found again as another device."""
import contextlib
import fcntl
import os
import struct
import subprocess

import pytest

from cluster import BIN, run, until

CLUSTER = {"luns": "meta=1x1G,data=2x1G"}
LOOP_SET_STATUS64 = 0x4C04
LOOP_INFO64 = struct.Struct("QQQQQIIII64s64s32s2Q")
SECTOR = 512


def image(cluster, name):
    return os.path.join(cluster.dir, "luns", name + ".img")


def size_of(cluster, name):
    (size,) = (lun["size_bytes"] for pool in cluster.reeladm("show")["pools"]
               for lun in pool["luns"] if lun["name"] == name)
    return size


@pytest.mark.seconds(120)
def test_a_lun_that_grows_is_noticed_by_a_controller_that_runs(cluster):
    path = image(cluster, "data1")
    was = os.path.getsize(path)
    assert cluster.reeladm("show")["notes"] == []
    os.truncate(path, was + (1 << 30))
    until(lambda: size_of(cluster, "data1") == was + (1 << 30))
    assert cluster.alarms() == []
    (note,) = cluster.reeladm("show")["notes"]
    assert f"LUN data1 ({path}): has grown by 1 GiB" in note, note
    assert "has grown by 1 GiB" in cluster.log("mdc1")
    cluster.restart()
    until(lambda: cluster.reeladm("show")["notes"] == [note])
    os.truncate(path, was)
    until(lambda: cluster.reeladm("show")["notes"] == [])


@pytest.mark.seconds(120)
def test_a_lun_that_was_cut_is_an_alarm(cluster):
    path = image(cluster, "data2")
    was = os.path.getsize(path)
    os.truncate(path, was - (64 << 20))  # where nothing has been written yet
    until(lambda: any("LUN data2" in alarm and "set its size back" in alarm
                      for alarm in cluster.alarms()))
    os.truncate(path, was)
    until(lambda: cluster.alarms() == [])


def test_a_new_lun_is_seen_without_a_restart(cluster):
    run(os.path.join(BIN, "reel-label"), "write", "spare", image(cluster, "spare"), "--size",
        "64MiB")
    try:
        (disk,) = (disk for disk in cluster.reeladm("disks")["disks"] if disk["name"] == "spare")
        assert disk["volume"] == "" and disk["state"] == "ok"
    finally:
        os.unlink(image(cluster, "spare"))


@contextlib.contextmanager
def loop_device(path):
    made = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", "--sector-size",
                           "4096", path], text=True,
                          capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"no loop device to be had here: {made.stderr}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


def lose(device):
    """Nothing that is asked of it is answered with anything but EIO from now on."""
    fd = os.open(device, os.O_RDONLY)
    try:
        info = LOOP_INFO64.pack(0, 0, 0, 0, SECTOR, 0, 0, 0, 0, b"", b"", b"", 0, 0)
        fcntl.ioctl(fd, LOOP_SET_STATUS64, info)
    finally:
        os.close(fd)


@pytest.mark.seconds(180)
def test_a_mount_finds_its_lun_again_by_its_name_as_another_device(cluster):
    """As the kernel does it: the LUN comes back, the name leads to it, and the device is another
    one. What was on its way without keys is waited out first (30 s)."""
    by_id, directory = (os.path.join(cluster.scratch, name) for name in ("by-id", "mount"))
    os.mkdir(directory)
    where, log = cluster.where("mdc1"), directory + ".log"
    others = [image(cluster, name) for name in ("meta1", "data2")]
    luns = ",".join(f"luns={path}" for path in (*others, by_id))
    with loop_device(image(cluster, "data1")) as first, \
            loop_device(image(cluster, "data1")) as second:
        os.symlink(first, by_id)
        run(os.path.join(BIN, "mount.reelfs"), "reel", directory, "-o",
            f"mdc={where},{luns},config={cluster.own_config()},log={log}")
        try:
            lose(first)
            with open("/dev/urandom", "rb") as random:
                content = random.read(8 << 20)
            source = os.path.join(cluster.scratch, "source")
            with open(source, "wb") as file:
                file.write(content)
            writer = subprocess.Popen(["dd", f"if={source}", f"of={directory}/file", "bs=1M",
                                       "oflag=direct"], stderr=subprocess.PIPE)
            until(lambda: f"{by_id}: not usable yet" in open(log).read())
            assert writer.poll() is None, "it waits"
            os.unlink(by_id)
            os.symlink(second, by_id)
            until(lambda: "its device was replaced" in open(log).read())
            assert writer.wait(timeout=90) == 0, writer.stderr.read()
            with open(f"{cluster.ws2}/file", "rb") as file:
                assert file.read() == content
        finally:
            run("umount", directory, timeout=60)
