"""Four workstations at once on the same files: logs, records, copies."""
import fcntl
import filecmp
import hashlib
import mmap
import os
import random
import select
import struct
import subprocess

import pytest

from run_all import run_all, meet
from cluster import run

# Two past the page cache, where the kernel can map such files, and two in it. The LUNs, and the
# sources of the copies, fit into the memory of a small machine.
CLUSTER = {"clients": 4, "mount_options": ["", "", "cache=page", "cache=page"],
           "luns": "meta=1x2G,data=4x2G"}
LONG = bool(os.environ.get("REEL_LONG"))
KIB, MIB = 1 << 10, 1 << 20
pytestmark = pytest.mark.seconds(3600 if LONG else 240)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- a log that all append to

LINES = 2000 if LONG else 40
LINE_LENGTHS = (1, 2, 17, 511, 512, 4095, 4097, 16383, 16385, 40_001, 300_000)


def log_line(writer, number):
    """A line of an odd length that says who wrote it, all along."""
    length = random.Random(f"{writer}.{number}").choice(LINE_LENGTHS)
    stamp = f"{writer}.{number} "
    return (stamp + stamp * (length // len(stamp))).encode() + b"\n"


def append_lines(path, writer):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    meet()
    for number in range(LINES):
        line = log_line(writer, number)
        assert os.write(fd, line) == len(line)
    os.close(fd)


def test_a_log_that_all_append_to(cluster, room):
    """Two processes on each host; every line is whole, none is lost, none there twice."""
    writers = range(2 * len(room))
    run_all(*((append_lines, f"{room[writer % len(room)]}/log", writer) for writer in writers))
    logs = [get(f"{place}/log") for place in room]
    assert all(log == logs[0] for log in logs)
    lines = logs[0].splitlines(keepends=True)
    expected = {writer: [log_line(writer, number) for number in range(LINES)] for writer in writers}
    for line in lines:
        writer = int(line.split(b".")[0])
        assert line == expected[writer].pop(0), f"of writer {writer}: {line[:60]}"
    assert not any(expected.values())


# ---- one file, written together

def record_of(number, length):
    stamp = struct.pack("<Q", number * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    return (stamp * (length // 8 + 1))[:length]


def write_records(path, host, hosts, start, length, count):
    fd = os.open(path, os.O_WRONLY)
    meet()
    for number in range(host, count, hosts):
        assert os.pwrite(fd, record_of(number, length), start + number * length) == length
    os.close(fd)


def read_records(path, start, length, count):
    with open(path, "rb") as file:
        assert file.read(start) == bytes(start)
        for number in range(count):
            assert file.read(length) == record_of(number, length), f"record {number}"
        assert file.read() == b""


@pytest.mark.parametrize("start", [0, 777])
@pytest.mark.parametrize("length", [512, 4000, 16 * KIB, MIB])
def test_interleaved_records(room, length, start):
    """Host i writes the records i, i + 4, … in blocks and stripes that it shares with others."""
    count = min(100_000 if LONG else 1200, (4 << 30 if LONG else 256 * MIB) // length)
    path = "records"
    open(f"{room[0]}/{path}", "wb").close()
    run_all(*((write_records, f"{place}/{path}", host, len(room), start, length, count)
              for host, place in enumerate(room)))
    run_all(*((read_records, f"{place}/{path}", start, length, count) for place in room))


STAMP = 512
# A write of more than a MiB reaches the client in pieces of that size, and only each of these is
# one write (docs/operations.md).
WHOLE = MIB
OVERLAPPING = MIB + 4 * KIB


def write_overlapping(path, writer, count, rounds):
    """Both write the same records; after each round, each piece of a record is one's."""
    fd = os.open(path, os.O_RDWR)
    page_aligned = mmap.mmap(-1, OVERLAPPING)
    for number in range(rounds):
        meet()
        page_aligned[:] = struct.pack("<QQ", writer, number) * (OVERLAPPING // 16)
        for record in range(count):
            assert os.pwrite(fd, page_aligned, record * OVERLAPPING) == OVERLAPPING
        meet()
        for record in range(count):
            data = os.pread(fd, OVERLAPPING, record * OVERLAPPING)
            for first in range(0, OVERLAPPING, WHOLE):
                piece = data[first:first + WHOLE]
                stamps = {piece[i:i + STAMP] for i in range(0, len(piece), STAMP)}
                assert len(stamps) == 1, f"round {number}, record {record}, piece at {first}"
                assert struct.unpack_from("<Q", piece, 8)[0] == number
    os.close(fd)


@pytest.mark.parametrize("hosts", [(0, 1), (1, 2), (2, 3)], ids=["direct", "mixed", "paged"])
def test_overlapping_writes_of_two_hosts(room, hosts):
    open(f"{room[0]}/file", "wb").close()
    count, rounds = (64, 20) if LONG else (16, 6)
    run_all(*((write_overlapping, f"{room[host]}/file", host, count, rounds) for host in hosts))
    contents = [get(f"{place}/file") for place in room]
    assert all(content == contents[0] for content in contents)


# ---- copies of large files, beside people who look around

def copy_around(source, place, host, tool):
    target = f"{place}/large{host}"
    meet()
    if tool == "cp":
        run("cp", source, target)
    else:
        run("dd", f"if={source}", f"of={target}", "bs=1M", *tool)
    return sha256(target)


def look_around(places, files):
    """find and ls, as long as not all copies are there in full."""
    meet()
    rounds = 0
    while True:
        for place in places:
            assert "large" in run("find", place, "-name", "large*") or rounds == 0
            listed = run("ls", "-l", place).splitlines()
            sizes = [int(line.split()[4]) for line in listed if "large" in line]
        rounds += 1
        if len(sizes) == files and len(set(sizes)) == 1 and sizes[0] == LARGE:
            return


LARGE = (1 << 30) if LONG else 96 * MIB


def test_copies_of_large_files_beside_find_and_ls(cluster, room):
    sources = []
    for host in range(len(room)):
        sources.append(f"{cluster.scratch}/source{host}")
        with open(sources[-1], "wb") as file:
            for number in range(LARGE // MIB):
                file.write(random.Random(f"{host}.{number}").randbytes(MIB))
    tools = ("cp", (), ("oflag=direct",), ("conv=fsync",))
    for place in room:  # somebody has begun
        os.close(os.open(f"{place}/large0", os.O_CREAT | os.O_WRONLY, 0o644))
    sums = run_all(*((copy_around, sources[host], place, host, tools[host])
                     for host, place in enumerate(room)), (look_around, room, len(room)))
    for host, source in enumerate(sources):
        assert sums[host] == sha256(source)
        assert filecmp.cmp(source, f"{room[(host + 1) % len(room)]}/large{host}", shallow=False)
        os.unlink(source)


# ---- tail -f

@pytest.mark.parametrize("options", [(), ("---disable-inotify",)], ids=["", "polling"])
def test_tail_follows_another_host(room, options):
    """inotify sees nothing of other hosts; tail knows, and polls on a file system of this kind."""
    with open(f"{room[0]}/log", "wb", buffering=0) as log:
        log.write(b"line 0\n")
        tail = subprocess.Popen(["tail", "-f", "-s", "0.1", *options, f"{room[1]}/log"],
                                stdout=subprocess.PIPE)
        try:
            for number in range(20):
                assert select.select([tail.stdout], [], [], 60)[0], f"line {number} does not come"
                assert tail.stdout.readline() == b"line %d\n" % number
                log.write(b"line %d\n" % (number + 1))
        finally:
            tail.kill()
            tail.communicate()


# ---- shared maps, with locks between the hosts

PAGES = 6
PAGE = mmap.PAGESIZE
TURNS = 2000 if LONG else 150


def count_in_a_map(path, host, direct):
    """Each turn under the lock: all pages say the same number; then one more."""
    fd = os.open(path, os.O_RDWR | (os.O_DIRECT if direct else 0))
    view = mmap.mmap(fd, PAGES * PAGE)
    by_write = host % 2
    page_aligned = mmap.mmap(-1, PAGE)
    meet()
    seen = 0
    for _ in range(TURNS):
        fcntl.lockf(fd, fcntl.LOCK_EX)
        numbers = {struct.unpack_from("<Q", view, page * PAGE)[0] for page in range(PAGES)}
        assert len(numbers) == 1, f"host {host} sees {numbers}"
        number = numbers.pop()
        assert number >= seen
        for page in range(PAGES):
            stamp = struct.pack("<Q", number + 1) * (PAGE // 8)
            if by_write:
                page_aligned[:] = stamp
                assert os.pwrite(fd, page_aligned, page * PAGE) == PAGE
            else:
                view[page * PAGE:(page + 1) * PAGE] = stamp
        view.flush()
        seen = number + 1
        fcntl.lockf(fd, fcntl.LOCK_UN)
    view.close()
    os.close(fd)


@pytest.mark.parametrize("direct", [False, True], ids=["", "o_direct"])
def test_maps_and_writes_under_a_lock(room, direct):
    with open(f"{room[0]}/file", "wb") as file:
        file.write(bytes(PAGES * PAGE))
    run_all(*((count_in_a_map, f"{place}/file", host, direct) for host, place in enumerate(room)))
    for place in room:
        with open(f"{place}/file", "rb") as file:
            assert file.read() == struct.pack("<Q", 4 * TURNS) * (PAGES * PAGE // 8)
