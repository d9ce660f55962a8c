"""LUNs that fail under running daemons: the call that needed the bytes gets EIO, the rest goes on.

The programs are those of build/PRESET/failing, whose LUNs fail as a control file says
(tests/failing/open_failing_lun.cc).
"""
import errno
import os
import select

import pytest

from cluster import FAILING, Cluster

DATA = ("data1.img", "data2.img")
EVERYWHERE = f"{1 << 20} {1 << 40}"  # but the labels


class Faults:
    """The control file."""

    def __init__(self, path):
        self.path = path

    def set(self, *lines):
        with open(self.path + ".new", "w") as file:
            file.writelines(line + "\n" for line in lines)
        os.replace(self.path + ".new", self.path)

    def clear(self):
        self.set()


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("faults") / "control")
    os.environ["REEL_LUN_FAULTS"] = path
    yield Faults(path)
    del os.environ["REEL_LUN_FAULTS"]


@pytest.fixture(scope="module")
def cluster(faults):
    made = Cluster(bin=FAILING, luns="meta=1x1G,data=2x1G")
    try:
        yield made
        faults.clear()
        made.fsck()
    finally:
        faults.clear()
        made.down()


def outcome(call):
    """0, or the errno with which it failed."""
    try:
        call()
        return 0
    except OSError as error:
        return error.errno


def content(number, version=0):
    return bytes([65 + number + 26 * version]) * 20_000


def make_files(folder, count=12):
    paths = [os.path.join(folder, f"file{number}") for number in range(count)]
    for number, path in enumerate(paths):
        with open(path, "wb", buffering=0) as file:
            file.write(content(number))
            os.fsync(file.fileno())
    return paths


def read(path):
    with open(path, "rb", buffering=0) as file:
        return file.read()


def test_reads_that_fail(cluster, faults, room):
    paths = make_files(room[0])
    faults.set(f"read data1.img {EVERYWHERE} 0")
    errors = [outcome(lambda path=path: read(path)) for path in paths]
    assert set(errors) == {0, errno.EIO}, errors
    for number, (path, error) in enumerate(zip(paths, errors)):
        if error == 0:
            assert read(path) == content(number)
        assert os.stat(path).st_size == 20_000
    faults.clear()
    for number, path in enumerate(paths):
        assert read(path) == content(number)


@pytest.mark.parametrize("flags", (0, os.O_DSYNC))
def test_writes_that_fail(cluster, faults, room, flags):
    """The write itself tells of it, or where that was done in memory the next fsync, once."""
    paths = make_files(room[0])
    faults.set(f"write data1.img {EVERYWHERE} 0")
    errors = []
    for number, path in enumerate(paths):
        file = os.open(path, os.O_RDWR | flags)
        written = outcome(lambda: os.write(file, content(number, 1)))
        synced = outcome(lambda: os.fsync(file))
        assert (synced if flags else written) == 0
        errors.append(written or synced)
        assert outcome(lambda: os.fsync(file)) == 0
        os.close(file)
    assert set(errors) == {0, errno.EIO}, errors
    os.mkdir(os.path.join(room[0], "new"))
    assert outcome(lambda: make_files(os.path.join(room[0], "new"))) == errno.EIO
    faults.clear()
    for number, (path, error) in enumerate(zip(paths, errors)):
        assert read(path) == content(number, 0 if error else 1)
        assert read(path.replace(room[0], room[1])) == content(number, 0 if error else 1)


def test_failed_flushes_are_reported_once(cluster, faults, room):
    path = os.path.join(room[0], "file")
    with open(path, "w+b", buffering=0) as file:
        file.write(b"old" * 10_000)
        os.fsync(file.fileno())
        faults.set(*(f"flush {lun} {EVERYWHERE} 0" for lun in DATA))
        file.seek(60_000)
        file.write(b"new" * 10_000)
        assert outcome(lambda: os.fsync(file.fileno())) == errno.EIO
        faults.clear()
        assert outcome(lambda: os.fsync(file.fileno())) == 0
        # What was lost is zeros or the bytes, never anything else; a second try holds.
        found = os.pread(file.fileno(), 100_000, 0)
        assert found[:30_000] == b"old" * 10_000
        assert set(found[30_000:]) <= {0, *b"new"}
        os.pwrite(file.fileno(), b"new" * 10_000, 60_000)
        os.fsync(file.fileno())
    cluster.kill("ws1")
    cluster.start("ws1")
    found = read(path)
    assert found == b"old" * 10_000 + bytes(30_000) + b"new" * 10_000


def test_truncation_over_a_failing_block(cluster, faults, room):
    path = os.path.join(room[0], "file")
    with open(path, "w+b", buffering=0) as file:
        file.write(b"x" * 20_000)
        os.fsync(file.fileno())
        os.ftruncate(file.fileno(), 10_000)
        faults.set(*(f"write {lun} {EVERYWHERE} 0" for lun in DATA))
        # Growing must zero what lies behind the end; it may not succeed and show old bytes.
        assert outcome(lambda: os.ftruncate(file.fileno(), 15_000)) == errno.EIO
        assert os.fstat(file.fileno()).st_size == 10_000
        faults.clear()
        os.ftruncate(file.fileno(), 15_000)
        assert os.pread(file.fileno(), 20_000, 0) == b"x" * 10_000 + bytes(5_000)


@pytest.mark.parametrize("kind", ("write", "flush"))
def test_a_failing_metadata_lun_ends_the_controller_and_loses_nothing(cluster, faults, room, kind):
    paths = make_files(room[0])
    faults.set(f"{kind} meta1.img {EVERYWHERE} 0")
    made = os.path.join(room[0], "made")
    child = os.fork()
    if child == 0:  # waits for the next controller, and must be answered by it, once
        os._exit(outcome(lambda: os.mkdir(made)))
    pid = cluster.hosts()["mdc1"]["pid"]
    if pid is not None:
        end = os.pidfd_open(pid)
        assert select.select([end], [], [], 60)[0], "the controller lives on without its store"
        os.close(end)
    faults.clear()
    cluster.start("mdc1")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.path.isdir(made)
    for number, path in enumerate(paths):
        assert read(path) == content(number)
