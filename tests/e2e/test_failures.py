"""Daemons that die and come back, and mounts that go."""
import os
import subprocess
import threading

import pytest

from cluster import run


def write_synced(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


class Writer(threading.Thread):
    """Makes files one after another, each synced before it counts, until it is told to stop."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.acknowledged, self.error = folder, [], None
        self.more, self.progress = threading.Event(), threading.Condition()
        self.more.set()
        self.start()

    def run(self):
        try:
            while self.more.is_set():
                number = len(self.acknowledged)
                name = os.path.join(self.folder, f"file{number:05}")
                write_synced(name + ".new", b"%d\n" % number * 1000)
                os.rename(name + ".new", name)
                with self.progress:
                    self.acknowledged.append(name)
                    self.progress.notify_all()
        except OSError as error:
            with self.progress:
                self.error = error
                self.progress.notify_all()

    def await_files(self, count):
        with self.progress:
            reached = self.progress.wait_for(
                lambda: self.error or len(self.acknowledged) >= count, timeout=60)
        assert reached and not self.error, f"{len(self.acknowledged)} files, {self.error!r}"

    def stop(self):
        self.more.clear()
        self.join(timeout=60)
        assert not self.is_alive() and not self.error, repr(self.error)


def test_mdc_killed_under_load(cluster, room):
    folders = [os.path.join(mount, name) for mount, name in zip(room, ("by1", "by2"))]
    for folder in folders:
        os.mkdir(folder)
    writers = [Writer(folder) for folder in folders]
    for _ in range(3):
        for writer in writers:
            writer.await_files(len(writer.acknowledged) + 20)
        cluster.kill("mdc1")
        cluster.start("mdc1")
    for writer in writers:
        writer.await_files(len(writer.acknowledged) + 20)
        writer.stop()
    for mount, writer, name in ((room[1], writers[0], "by1"), (room[0], writers[1], "by2")):
        there = os.path.join(mount, name)  # through the other client
        assert sorted(os.listdir(there)) == [os.path.basename(path) for path in writer.acknowledged]
        for number, path in enumerate(writer.acknowledged):
            with open(os.path.join(there, os.path.basename(path)), "rb") as file:
                assert file.read() == b"%d\n" % number * 1000
    cluster.fsck()


def test_granted_data_flow_while_the_mdc_is_dead(cluster, room):
    with open(f"{room[0]}/movie", "w+b", buffering=0) as file:
        file.write(b"a" * (4 << 20))
        os.fsync(file.fileno())
        cluster.kill("mdc1")
        assert os.pwrite(file.fileno(), b"b" * (1 << 20), 1 << 20) == 1 << 20
        assert os.pread(file.fileno(), 4 << 20, 0) == \
            b"a" * (1 << 20) + b"b" * (1 << 20) + b"a" * (2 << 20)
        cluster.start("mdc1")
        os.fsync(file.fileno())
    with open(f"{room[1]}/movie", "rb") as file:
        assert file.read()[1 << 20:2 << 20] == b"b" * (1 << 20)


def test_client_killed_loses_nothing_that_was_synced(cluster, room):
    for number in range(20):
        write_synced(f"{room[0]}/file{number}", b"%d" % number * 5000)
    held = open(f"{room[1]}/file0", "rb")
    cluster.kill("ws1")
    with pytest.raises(OSError):
        os.stat(room[0])
    # What the dead client held is free when its lease is over; the other one waits no longer.
    for number in range(20):
        with open(f"{room[1]}/file{number}", "r+b") as file:
            assert file.read() == b"%d" % number * 5000
            file.write(b"more")
    held.close()
    cluster.start("ws1")
    with open(f"{room[0]}/file7", "rb") as file:
        assert file.read() == b"7" * 5000 + b"more"
    cluster.fsck()


def test_unmount(cluster, room):
    write_synced(f"{room[0]}/file", b"text")
    with open(f"{room[0]}/file", "rb"):
        busy = subprocess.run(["umount", cluster.ws1], capture_output=True, text=True)
        assert busy.returncode != 0 and "busy" in busy.stderr
    with open(f"{room[0]}/unsynced", "wb") as file:
        file.write(b"not synced, but closed")
    run("umount", cluster.ws1)
    assert os.listdir(cluster.ws1) == []
    cluster.start("ws1")
    with open(f"{room[0]}/unsynced", "rb") as file:
        assert file.read() == b"not synced, but closed"
    cluster.kill("ws1", "TERM")  # is a clean unmount too
    assert not os.path.ismount(cluster.ws1)
    cluster.start("ws1")


def test_unmount_when_the_mdc_is_dead(cluster, room):
    write_synced(f"{room[0]}/file", b"text")
    cluster.kill("mdc1")
    run("umount", cluster.ws1, timeout=60)
    cluster.start("mdc1")
    cluster.start("ws1")
    with open(f"{room[0]}/file", "rb") as file:
        assert file.read() == b"text"


def test_one_mdc_at_a_time(cluster):
    """A second daemon on the same LUNs stands by, and fsck while one runs is refused."""
    refused = cluster.tool("fsck.reelfs", "reel", "--luns", cluster.luns())
    assert refused.returncode == 8 and refused.stderr.strip()
    config = os.path.join(cluster.scratch, "second.toml")
    with open(os.path.join(cluster.dir, "hosts", "mdc1", "mdc.toml")) as first:
        address = cluster.where("mdc1")
        text = first.read().replace(address, "127.0.0.1:0")
    with open(config, "w") as second:
        second.write(text)
    with subprocess.Popen([os.path.join(cluster.bin, "reel-mdcd"), "--config", config],
                          stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert f"a standby of {address}" in daemon.stderr.readline()
        finally:
            daemon.terminate()
            daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    assert os.listdir(cluster.ws1) is not None


def test_lab_says_what_is_wrong(cluster):
    assert "no host ws9" in cluster.lab_fails("start", "ws9")
    assert "is not a signal" in cluster.lab_fails("kill", "ws1", "NONSENSE")
