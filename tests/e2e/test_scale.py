"""What grows may not become slow: a directory of very many names, a file of very many extents.

Costs are counted, not timed: CPU seconds of the daemons, and requests and bytes at the LUNs (the
programs of build/PRESET/failing count those). Full counts with REEL_LONG=1.

What a create costs the LUNs comes in cycles: the metadata store's log takes 4 KiB of each, at four
write buffers it is cut and a table written, and four tables are merged with those below. So LUN
costs are means over one whole cycle of creates, and the first cycle warms up: it fills the log's
space, which is zeroed before its first use.
"""
import mmap
import os
import random
import struct
import subprocess
import time

import pytest

from cluster import FAILING, Cluster

LONG = bool(os.environ.get("REEL_LONG"))
# A write buffer is a 64th of the store, and 64 MiB at most.
STORE = "8G" if LONG else "64M"
WINDOW = 10_000 if LONG else 1_024  # creates that are measured at a time
CYCLE = 4 * 4 * (64 << 20 if LONG else 1 << 20) // 4096 // WINDOW  # windows
ENTRIES = 1_000_000 if LONG else 4 * CYCLE * WINDOW
EXTENTS = 100_000 if LONG else 5_000
BLOCK = 16 << 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    prefix = str(tmp_path_factory.mktemp("scale") / "counts")
    os.environ["REEL_LUN_COUNTS"] = prefix
    made = Cluster(bin=FAILING, luns=f"meta=1x{STORE},data=4x4G")
    made.counts = prefix
    try:
        yield made
        made.guard_test(600)
        made.fsck()
    finally:
        made.down()
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
            cpu += time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3): to the nanosecond
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


def by_turns(cost, works, turns=10):
    """What each of these functions costs, by its key: the same at the same time, so that it does
    not matter who else uses the machine."""
    costs = {key: [] for key in works}
    for turn in range(turns):
        for key, work in list(works.items())[::1 if turn % 2 else -1]:
            cost.take()
            work(turn)
            costs[key].append(cost.take())
    return costs


def least_cpu_us(costs, calls):
    """Of the cheapest turn: others pay for where the kernel puts them, and for who else runs."""
    return min(cost[0] for cost in costs) / calls * 1e6


@pytest.mark.seconds(7000 if LONG else 300)
def test_a_large_directory(cluster, room, capsys):
    small = os.path.join(room[0], "small"), os.path.join(room[1], "small")
    os.mkdir(small[0])
    cost = Cost(cluster)
    windows = []
    for first in range(0, ENTRIES, WINDOW):
        create(room[0], first, WINDOW)
        windows.append(cost.take())

    few = 200
    creates = by_turns(cost, {
        "small": lambda turn: create(small[0], turn * few, few),
        "large": lambda turn: create(room[0], ENTRIES + turn * few, few)})
    entries = {"small": 10 * few, "large": ENTRIES + 10 * few}

    # Names that the other client has not seen yet.
    unseen = {name: random.Random(1).sample(range(count), 10 * few)
              for name, count in entries.items()}

    def stat(folder, name):
        def work(turn):
            for number in unseen[name][turn * few:(turn + 1) * few]:
                os.stat(f"{folder}/entry{number:08}")
        return work

    # The first time from the LUNs, where the records are not in memory (two reads at most); then,
    # by a client that knows nothing, from the controller's memory: how large the directory is makes
    # no difference to that.
    works = {"small": stat(small[1], "small"), "large": stat(room[1], "large")}
    cold = by_turns(Cost(cluster, "ws2"), works)
    cluster.kill("ws2", "TERM")
    cluster.start("ws2")
    stats = by_turns(Cost(cluster, "ws2"), works)

    before = {host: resident(cluster, host) for host in ("mdc1", "ws1", "ws2")}
    listed = []
    for folder in room:
        with subprocess.Popen(["ls", "-f", folder], stdout=subprocess.PIPE) as listing:
            listed.append(sum(1 for _ in listing.stdout))
    grown = {host: resident(cluster, host) - size for host, size in before.items()}

    cycles = windows[CYCLE:2 * CYCLE], windows[-CYCLE:]
    # What creates take by themselves: in some windows tables are written, too, and compacted, the
    # more the more levels of them there are.
    cpu, requests, size = ([min(window[unit] for window in cycle) / WINDOW for cycle in cycles]
                           for unit in range(3))
    cpu = [seconds * 1e6 for seconds in cpu]
    create_us, cold_us, stat_us = ({name: round(least_cpu_us(of[name], few)) for name in entries}
                                   for of in (creates, cold, stats))
    reads = sum(cost[1] for cost in cold["large"]) / (10 * few)
    with capsys.disabled():
        print(f"\nscale: {entries['large']} entries; a create, first and last: LUN bytes "
              f"{size[0]:.0f} {size[1]:.0f}, LUN requests {requests[0]:.3f} {requests[1]:.3f}, "
              f"CPU us {cpu[0]:.0f} {cpu[1]:.0f}; by turns CPU us: create {create_us}, stat "
              f"{stat_us}, the first time {cold_us} and {reads:.2f} reads; windows of {WINDOW} "
              f"(s, requests, bytes): {windows[CYCLE]}, {windows[-1]}; ls -f: {grown} MiB more "
              f"than {before}")
    assert listed == [entries["large"] + 3] * 2  # with ".", ".." and "small"
    assert grown["mdc1"] < 64 and grown["ws1"] < 64 and grown["ws2"] < 128, "ls -f takes memory"
    few_ticks = 8 / WINDOW  # a tick's sync writes a block of the log, however few creates it is for
    assert requests[1] <= 1.25 * requests[0] + few_ticks
    assert size[1] <= 1.25 * size[0] + 4096 * few_ticks
    assert create_us["large"] <= 1.25 * create_us["small"]
    assert stat_us["large"] <= 1.5 * stat_us["small"] and reads <= 2
    if LONG:  # minutes lie between: not for a busy machine
        assert cpu[1] <= 1.25 * cpu[0]


PAGE = mmap.mmap(-1, 4096)


def touch_blocks(fd, numbers, write, run=1):
    """Of a file whose extents have `run` blocks, with a hole of one between them: these."""
    for number in numbers:
        at = (number + number // run) * BLOCK
        if write:
            PAGE[:] = b"%08d" % number * 512
            os.pwrite(fd, PAGE, at)
        else:
            assert os.pread(fd, 8, at) == b"%08d" % number


@pytest.mark.seconds(7000 if LONG else 300)
def test_a_file_of_many_extents(cluster, room, capsys):
    few, calls = 250, 1000
    chosen = random.Random(2)
    # Not by way of memory, where several writes of one place become one of the LUN's.
    flags = os.O_CREAT | os.O_RDWR | os.O_DIRECT
    files = {name: os.open(f"{room[0]}/{name}", flags) for name in ("few", "many")}
    # As many blocks each: which of them the processors' caches have is not what is asked here.
    run = {"few": EXTENTS // few, "many": 1}
    for name, fd in files.items():
        touch_blocks(fd, range(EXTENTS), True, run[name])
        os.fsync(fd)
    cost = Cost(cluster)

    def touch(name, write):
        def work(_):
            numbers = [chosen.randrange(EXTENTS) for _ in range(calls)]
            touch_blocks(files[name], numbers, write, run[name])
            os.fsync(files[name])
        return work

    def fill(name, fd):
        def work(turn):
            first = (EXTENTS if name == "many" else 0) + turn * few
            touch_blocks(fd, range(first, first + few), True)
            os.fsync(fd)
        return work

    # (What a call costs depends on the processor that the kernel puts it on: many turns.)
    read, write = (by_turns(cost, {name: touch(name, write) for name in files}, 30)
                   for write in (False, True))
    files["new"] = os.open(f"{room[0]}/new", flags)
    holes = by_turns(cost, {name: fill(name, files[file])
                            for name, file in (("few", "new"), ("many", "many"))}, 4)

    # Another client knows nothing: its random reads ask for pieces of the map, then for none.
    files["far"] = os.open(f"{room[1]}/many", os.O_RDONLY)
    asked = []
    part = EXTENTS // 10
    for _ in range(10):
        before = cluster.counters()["op.layout_get"]
        touch_blocks(files["far"], [chosen.randrange(EXTENTS) for _ in range(part)], False)
        asked.append(cluster.counters()["op.layout_get"] - before)
    for fd in files.values():
        os.close(fd)
    figures = {what: [round(least_cpu_us(costs[name], per)) for name in ("few", "many")]
               for what, costs, per in (("read", read, calls), ("write", write, calls),
                                        ("write of a hole", holes, few))}
    with capsys.disabled():
        print(f"\nscale: {EXTENTS} extents; CPU us per call with few and with many: {figures}; "
              f"LayoutGets of another client, {part} random reads at a time: {asked}")
    # Some calls cost so little that a microsecond is more than how they differ.
    for what, (with_few, with_many) in figures.items():
        assert with_many <= 1.5 * with_few + 2, what
    assert sum(asked) <= EXTENTS // 50 and asked[-1] == 0
