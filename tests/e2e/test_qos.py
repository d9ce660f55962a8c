"""Guaranteed bandwidth on real mounts: who has reserved it gets it, others are held back, what
cannot be kept is refused, and a controller that dies takes nothing along."""
import errno
import mmap
import os
import threading

from cluster import until
from json_schema import check

CLUSTER = {"mdcs": 2, "seat_ms": 3000, "tls": True, "luns": "meta=1x1G,data=2x512M"}
MIB = 1 << 20
CAPACITY = "64M"  # far less than the images could carry
MOST = 56 * MIB   # 0.9 of it, nearly


class Writer:
    """Writes a file past all caches, over and over, one request after the other."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
        self.block = mmap.mmap(-1, MIB)
        self.written = 0
        self.stopping = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopping:
            self.written += os.pwrite(self.file, self.block, self.written // MIB % 32 * MIB)

    def stop(self):
        self.stopping = True
        self.thread.join()
        os.close(self.file)


def compare(first, second, mebibytes):
    """How much the second wrote for each byte of the first, while that wrote so much."""
    writers = [Writer(first), Writer(second)]
    for writer in writers:
        writer.thread.start()
    until(lambda: writers[0].written >= 16 * MIB)  # all have begun, and have their rates
    began = [writer.written for writer in writers]
    until(lambda: writers[0].written >= began[0] + mebibytes * MIB)
    done = [writer.written - start for writer, start in zip(writers, began)]
    for writer in writers:
        writer.stop()
    return done[1] / done[0]


def qos(cluster, *words):
    shown = cluster.reeladm("qos", *words)
    check("qos", shown)
    return shown


def refused(cluster, *words):
    done = cluster.ask(",".join(cluster.where(mdc) for mdc in cluster.mdcs), "qos", *words)
    assert done.returncode == 1, done.stdout
    return done.stderr


def release_all(cluster):
    for one in qos(cluster)["reservations"]:
        qos(cluster, "release", str(one["reservation"]))


def test_what_cannot_be_kept_is_refused(cluster, room):
    assert qos(cluster)["reservations"] == []
    assert "qos capacity" in refused(cluster, "reserve", "client", "ws1", "1M")
    qos(cluster, "capacity", "data", CAPACITY, "1000")
    assert "57.5 MiB/s may be reserved" in refused(cluster, "reserve", "client", "ws1", "60M")
    shown = qos(cluster, "reserve", "client", "ws1", "2x20M")
    assert [(one["kind"], one["name"], one["rate_bytes"]) for one in shown["reservations"]] == \
        [("client", "ws1", 40 * MIB)]
    assert shown["sets"][0]["reserved_bytes"] == 40 * MIB
    assert "40 MiB/s are" in refused(cluster, "reserve", "client", "ws2", "20M")
    assert "are reserved" in refused(cluster, "capacity", "data", "10M")
    shown = qos(cluster, "release", "client", "ws1")
    assert shown["reservations"] == []
    assert "nothing is reserved" in refused(cluster, "release", "client", "ws1")


def test_a_greedy_client_is_held_back_and_so_it_is_after_a_failover(cluster, room):
    one, two = room
    qos(cluster, "capacity", "data", CAPACITY)
    qos(cluster, "reserve", "client", "ws1", str(MOST))
    until(lambda: len(qos(cluster)["shares"]) >= 2)
    assert compare(f"{one}/a", f"{two}/b", 160) < 0.4
    before = qos(cluster)
    active = cluster.active()
    cluster.kill(active)
    until(lambda: active not in [name for name, host in cluster.hosts().items()
                                 if host.get("role") == "active"]
          and any(host.get("role") == "active" for host in cluster.hosts().values()))
    cluster.start(active)
    after = qos(cluster)
    assert after["reservations"][0]["made"] == before["reservations"][0]["made"]
    until(lambda: {share["host"] for share in qos(cluster)["shares"]} >= {"ws1", "ws2"})
    assert compare(f"{one}/a", f"{two}/b", 160) < 0.4
    release_all(cluster)


def test_a_stream_has_its_rate_as_long_as_it_is_open(cluster, room):
    one, two = room
    qos(cluster, "capacity", "data", CAPACITY)
    path = f"{two}/stream"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.setxattr(file, "reelfs.rate", b"24x1M")
    assert os.getxattr(file, "reelfs.rate") == b"24x1048576"
    shown = qos(cluster)["reservations"]
    assert [(each["kind"], each["host"], each["rate_bytes"]) for each in shown] == \
        [("stream", "ws2", 24 * MIB)]
    for rate, error in ((b"90M", errno.EBUSY), (b"fast", errno.EINVAL)):
        try:
            os.setxattr(file, "reelfs.rate", rate)
            raise AssertionError(f"{rate} was taken")
        except OSError as refusal:
            assert refusal.errno == error
    os.write(file, b"x" * MIB)
    os.fsync(file)
    assert len(qos(cluster)["reservations"]) == 1
    os.close(file)
    until(lambda: qos(cluster)["reservations"] == [])


def test_trees_and_files_go_by_shares_of_their_own(cluster, room):
    one, two = room
    qos(cluster, "capacity", "data", CAPACITY)
    os.mkdir(f"{one}/dailies")
    cluster.reeladm("quota", "tree", "add", "dailies", f"{one}/dailies")
    qos(cluster, "reserve", "tree", "dailies", str(MOST))
    # The same client writes in the tree, and beside it.
    until(lambda: any(share["reservation"] for share in qos(cluster)["shares"]))
    assert compare(f"{one}/dailies/a", f"{one}/b", 128) < 0.4
    release_all(cluster)
    qos(cluster, "reserve", "file", f"{one}/b", str(MOST))
    until(lambda: any(share["reservation"] for share in qos(cluster)["shares"]))
    assert compare(f"{one}/b", f"{two}/dailies/a", 128) < 0.4
    release_all(cluster)


def test_without_reservations_nobody_is_given_a_rate(cluster, room):
    shown = qos(cluster, "capacity", "data", CAPACITY)
    assert shown["shares"] == [] and not shown["sets"][0]["dealt"]
    # Far more than the capacity that was stored, in a moment: nobody looks at it.
    one, two = room
    assert compare(f"{one}/a", f"{two}/b", 512) > 0
