"""What grows may not become slow: a directory of very many names, a file of very many extents.

Costs are counted, not timed: CPU seconds of the daemons, and requests and bytes at the LUNs (the
programs of build/PRESET/failing count those). Full counts with REEL_LONG=1.
"""
import os
import random
import struct
import subprocess
import sys

import pytest

import cluster as e2e
from cluster import Cluster

LONG = bool(os.environ.get("REEL_LONG"))
ENTRIES = 1_000_000 if LONG else 20_000
WINDOW = 10_000 if LONG else 5_000
EXTENTS = 100_000 if LONG else 10_000
BLOCK = 16 << 10
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    prefix = str(tmp_path_factory.mktemp("scale") / "counts")
    os.environ["REEL_LUN_COUNTS"] = prefix
    before = e2e.BIN
    e2e.BIN = os.path.join(os.path.dirname(before), "failing")
    made = Cluster("--luns", "meta=1x8G,data=4x4G")
    made.counts = prefix
    try:
        yield made
        made.guard_test(600)
        made.fsck()
    finally:
        made.down()
        e2e.BIN = before
        del os.environ["REEL_LUN_COUNTS"]


class Cost:
    """Of the controller and of the client ws1, since it was made."""

    def __init__(self, cluster):
        self.pids = [cluster.hosts()[host]["pid"] for host in ("mdc1", "ws1")]
        self.prefix = cluster.counts
        self.begin = self._now()

    def _now(self):
        cpu = requests = size = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            cpu += (int(fields[11]) + int(fields[12])) / TICKS
            with open(f"{self.prefix}.{pid}", "rb") as file:
                reads, read_bytes, writes, written_bytes = struct.unpack("=4Q", file.read(32))
            requests += reads + writes
            size += read_bytes + written_bytes
        return cpu, requests, size

    def spent(self):
        return tuple(now - then for now, then in zip(self._now(), self.begin))


def resident(cluster):
    """The most memory that the controller and the client ever had, in MiB."""
    most = 0
    for host in ("mdc1", "ws1"):
        with open(f"/proc/{cluster.hosts()[host]['pid']}/status") as status:
            most += next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
    return most


def create(folder, first, count):
    for number in range(first, first + count):
        os.close(os.open(f"{folder}/entry{number:08}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def stat_some(folder, below, count=2000):
    chosen = random.Random(1)
    for _ in range(count):
        os.stat(f"{folder}/entry{chosen.randrange(below):08}")


@pytest.mark.seconds(7000 if LONG else 600)
def test_a_large_directory(cluster, room, capsys):
    folder = room[0]
    create(folder, 0, WINDOW)  # warm-up
    cost = Cost(cluster)
    create(folder, WINDOW, WINDOW)
    first = cost.spent()
    cost = Cost(cluster)
    stat_some(folder, 2 * WINDOW)
    first_stat = cost.spent()
    done, parts = 2 * WINDOW, 4
    share = (ENTRIES - WINDOW - done) // parts
    script = "import test_scale, sys; test_scale.create(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
    makers = [subprocess.Popen([sys.executable, "-B", "-c", script, folder, str(done + part * share),
                                str(share)], cwd=os.path.dirname(os.path.abspath(__file__)))
              for part in range(parts)]
    assert [maker.wait() for maker in makers] == [0] * parts
    done += parts * share
    cost = Cost(cluster)
    create(folder, done, WINDOW)
    last = cost.spent()
    done += WINDOW
    cost = Cost(cluster)
    stat_some(folder, done)
    last_stat = cost.spent()
    before = resident(cluster)
    listing = subprocess.Popen(["ls", "-f", folder], stdout=subprocess.PIPE)
    count = sum(1 for _ in listing.stdout)
    usage = os.wait4(listing.pid, 0)[2]
    grown = resident(cluster) - before
    with capsys.disabled():
        print(f"\nscale: {done} entries; {WINDOW} creates (CPU s, LUN requests, LUN bytes): first "
              f"{first}, last {last}; 2000 stats: first {first_stat}, last {last_stat}; ls -f: "
              f"{usage.ru_maxrss // 1024} MiB, daemons +{grown} MiB of {before}")
    assert count == done + 2
    assert grown < 128, "listing a directory takes memory of its size"
    for what, then, now in zip(("CPU", "LUN requests", "LUN bytes"), first, last):
        assert now <= 1.25 * then, f"{what} of {WINDOW} creates: {then} at first, {now} at last"
    assert last_stat[0] <= 1.5 * first_stat[0] + 0.1


def touch_extents(fd, numbers, write):
    for number in numbers:
        if write:
            os.pwrite(fd, b"%08d" % number * 512, number * 2 * BLOCK)
        else:
            assert os.pread(fd, 8, number * 2 * BLOCK) == b"%08d" % number


@pytest.mark.seconds(7000 if LONG else 600)
def test_a_file_of_many_extents(cluster, room, capsys):
    few = 1000
    fd = os.open(f"{room[0]}/file", os.O_CREAT | os.O_RDWR)
    costs = {}

    def measure(name, numbers, write):
        os.fsync(fd)
        cost = Cost(cluster)
        touch_extents(fd, numbers, write)
        costs[name] = cost.spent()[0] / len(numbers) * 1e6

    chosen = random.Random(2)
    touch_extents(fd, range(few), True)
    os.fsync(fd)
    some = [chosen.randrange(few) for _ in range(5 * few)]
    measure("first holes", range(few, 2 * few), True)
    measure("read of few", some, False)
    measure("write of few", some, True)
    touch_extents(fd, range(2 * few, EXTENTS - few), True)
    os.fsync(fd)
    measure("last holes", range(EXTENTS - few, EXTENTS), True)
    os.fsync(fd)
    touch_extents(fd, range(EXTENTS), False)  # the client knows as much as it keeps
    some = [chosen.randrange(EXTENTS) for _ in range(5 * few)]
    measure("read of many", some, False)
    measure("write of many", some, True)
    os.close(fd)
    with capsys.disabled():
        print(f"\nscale: {EXTENTS} extents; CPU us per call: "
              + ", ".join(f"{name} {cost:.0f}" for name, cost in costs.items()))
    for few_name, many_name in (("read of few", "read of many"), ("write of few", "write of many"),
                                ("first holes", "last holes")):
        assert costs[many_name] <= 1.5 * costs[few_name] + 5, (few_name, many_name, costs)
