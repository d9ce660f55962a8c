"""LUNs that cannot fence: the lease alone keeps a woken host from writing what is another's.

The programs are those of build/PRESET/failing, which keep a journal of their writes
(tests/failing/open_failing_lun.cc).
"""
import errno
import os
import time

import pytest

from cluster import Cluster, FAILING
from overwriting import Holder, SIZE, begin, open_writer, read_file, stop, write_file


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    prefix = str(tmp_path_factory.mktemp("journal") / "writes")
    os.environ["REEL_LUN_JOURNAL"] = prefix
    yield prefix
    del os.environ["REEL_LUN_JOURNAL"]


@pytest.fixture(scope="module")
def cluster(journal):
    made = Cluster(bin=FAILING, luns="meta=1x1G,data=2x512M")
    try:
        yield made
        made.fsck()
    finally:
        made.down()


def now_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def writes(journal, pid):
    """When the process has handed writes to its LUNs."""
    with open(f"{journal}.{pid}") as file:
        return [int(line.split(" ", 1)[0]) for line in file]


def test_show_says_what_protects(cluster):
    assert "lease alone" in cluster.reeladm("show")["fencing"]
    assert all(lun["keys"] == [] and lun["problem"]
               for lun in cluster.reeladm("reservations")["luns"])


def test_a_woken_host_writes_nothing_that_its_lease_does_not_cover(cluster, room, journal):
    """Its writes would be done again under its next session: but the file is gone by then."""
    path, held_path = f"{room[0]}/file", f"{room[0]}/held"
    write_file(path, b"0")
    write_file(held_path, b"0")
    pid = cluster.hosts()["ws1"]["pid"]
    writer = open_writer(path, "A")
    try:
        with Holder(held_path) as holder:
            assert holder.write("A", 1) == 0  # unsynced
            stop(pid)
            stopped_ms = now_ms()
            begin(writer)  # its writes queue up
            write_file(f"{room[1]}/file", b"B")  # waits for the lease
            os.unlink(f"{room[1]}/file")
            cluster.kill("ws1", "CONT")
            assert writer.wait(timeout=60) != 0  # each of its threads got an error
            assert [when for when in writes(journal, pid) if when > stopped_ms] == []
            assert holder.fsync() == errno.EIO
            assert holder.write("C", SIZE) == 0  # under its new session
            assert holder.fsync() == 0
    finally:
        writer.kill()
        writer.wait()
    assert any(when > stopped_ms for when in writes(journal, pid))
    assert read_file(f"{room[1]}/held") == b"C" * SIZE
