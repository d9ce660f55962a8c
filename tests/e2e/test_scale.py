"""What grows may not become slow: a directory of very many names, a file of very many extents.

Costs are counted, not timed: CPU seconds of the daemons, and requests and bytes at the LUNs (the
programs of build/PRESET/failing count those). Full counts with REEL_LONG=1.

What a create costs the LUNs comes in cycles: the metadata store's log takes 4 KiB of each, at four
write buffers it is cut and a table written, and four tables are merged with those below. So LUN
costs are means over one whole cycle of creates, and the first cycle warms up: it fills the log's
space, which is zeroed before its first use.
"""
import os
import random
import statistics
import struct
import subprocess

import pytest

import cluster as e2e
from cluster import Cluster

LONG = bool(os.environ.get("REEL_LONG"))
# A write buffer is a 64th of the store, and 64 MiB at most.
STORE = "8G" if LONG else "64M"
WINDOW = 10_000 if LONG else 1_024  # creates that are measured at a time
CYCLE = 4 * 4 * (64 << 20 if LONG else 1 << 20) // 4096 // WINDOW  # windows
ENTRIES = 1_000_000 if LONG else 6 * CYCLE * WINDOW
EXTENTS = 100_000 if LONG else 10_000
BLOCK = 16 << 10
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    prefix = str(tmp_path_factory.mktemp("scale") / "counts")
    os.environ["REEL_LUN_COUNTS"] = prefix
    before = e2e.BIN
    e2e.BIN = os.path.join(os.path.dirname(before), "failing")
    made = Cluster("--luns", f"meta=1x{STORE},data=4x4G")
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
    """What the controller and a client have spent since this was made."""

    def __init__(self, cluster, client="ws1"):
        self.pids = [cluster.hosts()[host]["pid"] for host in ("mdc1", client)]
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

    def take(self):
        """CPU seconds, LUN requests, LUN bytes since the last call."""
        then, self.begin = self.begin, self._now()
        return tuple(now - before for now, before in zip(self.begin, then))


def resident(cluster, host):
    """The most memory that a daemon ever had, in MiB."""
    with open(f"/proc/{cluster.hosts()[host]['pid']}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def create(folder, first, count):
    for number in range(first, first + count):
        os.close(os.open(f"{folder}/entry{number:08}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def stat_some(folder, below, seed, count=2000):
    chosen = random.Random(seed)
    for _ in range(count):
        os.stat(f"{folder}/entry{chosen.randrange(below):08}")


def per_call(windows, unit, calls, how=statistics.mean):
    return how(window[unit] for window in windows) / calls


@pytest.mark.seconds(7000 if LONG else 300)
def test_a_large_directory(cluster, room, capsys):
    folder, folder2 = room
    small = f"{folder}/small"
    os.mkdir(small)
    cost = Cost(cluster)
    windows = []
    for first in range(0, ENTRIES, WINDOW):
        create(folder, first, WINDOW)
        windows.append(cost.take())
        if len(windows) == 2 * CYCLE:
            far = Cost(cluster, "ws2")
            stat_some(folder2, first, 1)
            first_stat = far.take()
            cost.take()
    far = Cost(cluster, "ws2")
    stat_some(folder2, ENTRIES, 2)
    last_stat = far.take()

    # The same work at the same time, by turns, for the CPU's sake: it is shared with others.
    turns = {folder: [], small: []}
    cost.take()
    done = {folder: ENTRIES, small: 0}
    for turn in range(10):
        for where in (folder, small) if turn % 2 else (small, folder):
            create(where, done[where], 500)
            done[where] += 500
            turns[where].append(cost.take())

    before = {host: resident(cluster, host) for host in ("mdc1", "ws1", "ws2")}
    listings = {}
    for host, where in (("ws1", folder), ("ws2", folder2)):
        listing = subprocess.Popen(["ls", "-f", where], stdout=subprocess.PIPE)
        listings[host] = sum(1 for _ in listing.stdout)
        os.waitpid(listing.pid, 0)
        listing.returncode = 0
    grown = {host: resident(cluster, host) - size for host, size in before.items()}

    cycles = windows[CYCLE:2 * CYCLE], windows[-CYCLE:]
    figures = {
        what: tuple(per_call(cycle, unit, WINDOW) for cycle in cycles)
        for unit, what in enumerate(("CPU s", "LUN requests", "LUN bytes"))}
    figures["CPU s by turns"] = tuple(
        per_call(turns[where], 0, 500, statistics.median) for where in (small, folder))
    with capsys.disabled():
        print(f"\nscale: {done[folder]} entries; a create costs at first, at last: "
              + ", ".join(f"{what} {then:.6g} {now:.6g}" for what, (then, now) in figures.items())
              + f"; windows of {WINDOW} at first {windows[CYCLE]}, at last {windows[-1]}; "
              f"2000 stats of another client: {first_stat}, {last_stat}; ls -f: {grown} MiB more "
              f"than {before}")
    assert set(listings.values()) == {done[folder] + 3}  # with ".", ".." and "small"
    assert grown["mdc1"] < 64 and grown["ws1"] < 64 and grown["ws2"] < 128, "ls -f takes memory"
    for what, (then, now) in figures.items():
        if what != "CPU s" or LONG:
            assert now <= 1.25 * then, f"{what} of a create: {then} at first, {now} at last"
    assert last_stat[0] <= 1.5 * first_stat[0] + 0.1
    assert last_stat[1] <= first_stat[1] + 2 * 2000, "a stat takes more than two reads"


def touch_extents(fd, numbers, write):
    for number in numbers:
        if write:
            os.pwrite(fd, b"%08d" % number * 512, number * 2 * BLOCK)
        else:
            assert os.pread(fd, 8, number * 2 * BLOCK) == b"%08d" % number


@pytest.mark.seconds(7000 if LONG else 300)
def test_a_file_of_many_extents(cluster, room, capsys):
    """A few extents and many, by turns: the machine is shared with others."""
    few = 500
    chosen = random.Random(2)
    small = os.open(f"{room[0]}/small", os.O_CREAT | os.O_RDWR)
    large = os.open(f"{room[0]}/large", os.O_CREAT | os.O_RDWR)
    touch_extents(small, range(few), True)
    touch_extents(large, range(EXTENTS), True)
    for fd in (small, large):
        os.fsync(fd)
    cost = Cost(cluster)
    costs = {}

    def measure(name, fd, numbers, write):
        cost.take()
        touch_extents(fd, numbers, write)
        if write:
            os.fsync(fd)
        costs.setdefault(name, []).append(cost.take()[0] / len(numbers) * 1e6)

    places = {small: few, large: EXTENTS}
    for turn in range(8):
        for name, fd in (("few", small), ("many", large))[::1 if turn % 2 else -1]:
            some = [chosen.randrange(places[fd]) for _ in range(2 * few)]
            measure(f"read of {name}", fd, some, False)
            measure(f"write of {name}", fd, some, True)
            holes = range(places[fd], places[fd] + few)
            places[fd] += few
            if turn < 2 or fd == large:  # the small one stays small
                measure(f"write of holes in {name}", fd, holes, True)
            else:
                places[fd] -= few
    # Another client knows nothing: its random reads ask for pieces of the map, then for none.
    far = os.open(f"{room[1]}/large", os.O_RDONLY)
    cost = Cost(cluster, "ws2")
    cold = []
    for _ in range(10):
        cost.take()
        touch_extents(far, [chosen.randrange(EXTENTS) for _ in range(EXTENTS // 20)], False)
        cold.append(cost.take()[0] / (EXTENTS // 20) * 1e6)
    for fd in (small, large, far):
        os.close(fd)
    figures = {name: statistics.median(values) for name, values in costs.items()}
    with capsys.disabled():
        print(f"\nscale: {EXTENTS} extents; CPU us per call: "
              + ", ".join(f"{name} {cost:.0f}" for name, cost in figures.items())
              + f"; reads by another client, a twentieth each: {[round(part) for part in cold]}")
    for what in ("read of", "write of", "write of holes in"):
        assert figures[f"{what} many"] <= 1.5 * figures[f"{what} few"] + 5, (what, figures)
    assert cold[-1] <= 1.5 * figures["read of few"] + 20, cold
