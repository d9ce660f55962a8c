"""A volume whose LUNs lie behind an iSCSI target: what it keeps, and what a lost SAN does to it."""
import errno
import mmap
import os
import shutil
import subprocess
import threading

import pytest

from cluster import BIN, TOP, run, until

CLUSTER = {"lun_backend": "iscsi", "luns": "meta=1x2G,data=3x2G"}


def test_a_tree_copied_through_one_mount_is_read_by_the_other(cluster):
    source = os.path.join(TOP, "docs")
    shutil.copytree(source, f"{cluster.ws1}/tree")
    with open(f"{cluster.ws1}/large", "wb") as file:
        for i in range(64):
            file.write(bytes([i]) * (1 << 20))
    run("diff", "-r", source, f"{cluster.ws2}/tree")
    run("cmp", f"{cluster.ws1}/large", f"{cluster.ws2}/large")
    cluster.fsck()
    cluster.restart()
    run("diff", "-r", source, f"{cluster.ws1}/tree")
    assert os.path.getsize(f"{cluster.ws2}/large") == 64 << 20
    assert cluster.hosts()["san1"]["state"] == "running"


def test_direct_requests_of_many_sizes(cluster):
    path = f"{cluster.ws1}/direct"
    run("fio", "--name=direct", f"--filename={path}", "--size=64M", "--direct=1", "--rw=randrw",
        "--bsrange=4k-2m", "--ioengine=io_uring", "--iodepth=16", "--verify=crc32c",
        "--verify_state_save=0", "--randseed=7")
    run("cmp", path, f"{cluster.ws2}/direct")


def test_the_luns_can_fence_and_are_named_by_their_urls(cluster):
    shown = cluster.reeladm("show")
    luns = [lun for pool in shown["pools"] for lun in pool["luns"]]
    assert len(luns) == 4
    assert all(lun["reservations"] and lun["path"].startswith("iscsi://") for lun in luns)
    patterns = [lun["path"] for lun in luns]
    listed = cluster.tool("reel-label", "list", *patterns)
    assert listed.returncode == 0 and "data3" in listed.stdout, listed.stderr
    assert all(disk["state"] == "ok" for disk in cluster.reeladm("disks")["disks"])


def test_labels_are_refused_what_a_served_volume_holds(cluster):
    url = cluster.reeladm("show")["pools"][0]["luns"][0]["path"]
    done = cluster.tool("reel-label", "write", "another", url)
    assert done.returncode == 1 and url in done.stderr, done.stderr
    done = cluster.tool("fsck.reelfs", "reel", "--luns", url)
    assert done.returncode != 0


def bring_back(cluster):
    """The SAN, and the controller, which ends by itself without its metadata LUN."""
    while cluster.hosts()["mdc1"]["pid"]:
        threading.Event().wait(0.05)
    for host in ("san1", "mdc1"):
        cluster.start(host)


def test_a_lost_san_is_waited_for_and_what_was_synced_is_there_afterwards(cluster):
    with open(f"{cluster.ws1}/synced", "wb") as file:
        file.write(b"reel" * 100_000)
        file.flush()
        os.fsync(file.fileno())
    cluster.kill("san1")
    # Of a file whose blocks the mount knows: only the LUNs are asked, and they are not there.
    reader = subprocess.Popen(["dd", f"if={cluster.ws2}/large", "of=/dev/null", "bs=1M",
                               "iflag=direct"], stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        reader.wait(timeout=1)
    bring_back(cluster)
    assert reader.wait(timeout=60) == 0, reader.stderr.read()
    for mount in (cluster.ws1, cluster.ws2):
        with open(f"{mount}/synced", "rb") as file:
            assert file.read() == b"reel" * 100_000


def test_a_lun_that_has_grown_at_the_target_is_noticed(cluster):
    path = os.path.join(cluster.dir, "luns", "data3.img")
    cluster.kill("san1")
    os.truncate(path, os.path.getsize(path) + (512 << 20))
    bring_back(cluster)
    until(lambda: any("LUN data3" in note and "has grown by 512 MiB, to 2.5 GiB" in note
                      for note in cluster.reeladm("show")["notes"]))
    assert cluster.alarms() == []


def test_a_soft_mount_says_that_the_san_is_lost(cluster):
    directory = os.path.join(cluster.scratch, "soft")
    os.mkdir(directory)
    where = cluster.where("mdc1")
    luns = ",".join(f"luns={lun['path']}" for pool in cluster.reeladm("show")["pools"]
                    for lun in pool["luns"])
    run(os.path.join(BIN, "mount.reelfs"), "reel", directory, "-o",
        f"mdc={where},{luns},config={cluster.own_config()},soft,timeout=500,"
        f"log={directory}.log")
    try:
        fd = os.open(f"{directory}/large", os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 4096)
        assert os.preadv(fd, [buffer], 0) == 4096
        cluster.kill("san1")
        with pytest.raises(OSError) as lost:
            os.preadv(fd, [buffer], 0)
        assert lost.value.errno == errno.ETIMEDOUT
        os.close(fd)
    finally:
        bring_back(cluster)
        run("umount", directory, timeout=60)
