"""A full volume: ENOSPC comes in the call that needed the space, nothing is half done, and deleting
works."""
import errno
import os
import time

import pytest

CLUSTER = {"luns": "meta=1x96M,data=1x128M"}
MIB = 1 << 20


def free_bytes(mount):
    facts = os.statvfs(mount)
    return facts.f_bavail * facts.f_frsize


def await_free(mount, wanted):
    """Blocks of deleted files come back in steps, soon."""
    until = time.monotonic() + 20
    while free_bytes(mount) < wanted:
        assert time.monotonic() < until, f"{free_bytes(mount)} bytes are free, not {wanted}"
        time.sleep(0.01)  # tidy: sleep (polling)


def fill(path, piece):
    """Writes until ENOSPC; the bytes that were acknowledged."""
    written = 0
    with open(path, "wb", buffering=0) as file:
        while True:
            try:
                written += os.write(file.fileno(), bytes([1 + written // piece % 250]) * piece)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                os.fsync(file.fileno())  # all that was acknowledged has its place
                return written


def test_writes_until_full(cluster, room):
    free = free_bytes(cluster.ws1)
    path = f"{room[0]}/big"
    written = fill(path, MIB)
    assert written >= free - 4 * MIB
    assert os.stat(path).st_size == written
    with open(f"{room[1]}/big", "rb") as file:
        for start in range(0, written, MIB):
            piece = file.read(MIB)
            assert piece == bytes([1 + start // MIB % 250]) * len(piece)
    # Names still have room, bytes have none; what is there can be overwritten.
    with open(f"{room[0]}/small", "wb", buffering=0) as file:
        with pytest.raises(OSError) as error:
            for _ in range(1000):
                file.write(b"x" * 16384)
        assert error.value.errno == errno.ENOSPC
    with open(path, "r+b", buffering=0) as file:
        file.write(b"over")
        os.fsync(file.fileno())
    os.truncate(path, MIB)
    with open(f"{room[0]}/again", "wb", buffering=0) as file:
        file.write(b"x" * MIB)
        os.fsync(file.fileno())
    for name in ("big", "small", "again"):
        os.unlink(f"{room[0]}/{name}")
    await_free(cluster.ws1, free - MIB)


def test_files_known_to_another_host_free_space_at_once(cluster, room):
    """It could be opened there for a moment longer, but not at the price of ENOSPC here."""
    for _ in range(5):
        written = fill(f"{room[0]}/big", MIB)
        assert os.stat(f"{room[1]}/big").st_size == written
        os.unlink(f"{room[0]}/big")
        assert fill(f"{room[0]}/next", MIB) >= written - 4 * MIB
        os.unlink(f"{room[0]}/next")


def test_small_writes_until_full(cluster, room):
    """They are in memory first: what was acknowledged has its place all the same."""
    free, piece = free_bytes(cluster.ws1), 16 << 10
    path = f"{room[0]}/small"
    written = fill(path, piece)
    assert written >= free - 4 * MIB
    with open(f"{room[1]}/small", "rb") as file:
        for start in range(0, written, piece):
            data = file.read(piece)
            assert data == bytes([1 + start // piece % 250]) * len(data)
        assert file.tell() == written
    os.unlink(path)
    await_free(cluster.ws1, free - MIB)


def test_fallocate_takes_all_or_nothing(cluster, room):
    free = free_bytes(cluster.ws1)
    with open(f"{room[0]}/file", "w+b", buffering=0) as file:
        file.write(b"begin")
        os.fsync(file.fileno())
        before = os.fstat(file.fileno())
        with pytest.raises(OSError) as error:
            os.posix_fallocate(file.fileno(), 0, free + 16 * MIB)
        assert error.value.errno == errno.ENOSPC
        after = os.fstat(file.fileno())
        assert (after.st_size, after.st_blocks) == (before.st_size, before.st_blocks)
        os.posix_fallocate(file.fileno(), 0, free // 2)
        assert os.pread(file.fileno(), 100, 0) == b"begin" + bytes(95)
    os.unlink(f"{room[0]}/file")
    await_free(cluster.ws1, free - MIB)


def test_both_hosts_fill_it(cluster, room):
    """What one of them has reserved ahead is recalled before the other gets ENOSPC."""
    free = free_bytes(cluster.ws1)
    written = [fill(f"{mount}/big{number}", 256 << 10) for number, mount in enumerate(room)]
    assert sum(written) >= free - 8 * MIB
    for number in range(2):
        os.unlink(f"{room[0]}/big{number}")
    await_free(cluster.ws1, free - MIB)


def make_when_there_is_room(path):
    for _ in range(100_000):
        try:
            return os.mkdir(path)
        except OSError as full:
            if full.errno != errno.ENOSPC:
                raise
    raise AssertionError(f"no room for {path} in a store that was emptied")


@pytest.mark.seconds(600)
def test_full_metadata(cluster, room):
    """Attributes fill the metadata store: ENOSPC, and deleting makes room again."""
    value = os.urandom(60_000)
    count = 0
    with pytest.raises(OSError) as error:
        while count < 20_000:
            path = f"{room[0]}/file{count}"
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.setxattr(path, "user.much", value)
            count += 1
    assert error.value.errno == errno.ENOSPC
    assert len(os.listdir(room[1])) in (count, count + 1)
    for number in range(count):
        assert os.getxattr(f"{room[1]}/file{number}", "user.much") == value
    cluster.restart()  # a controller starts on a full store
    for name in os.listdir(room[0]):
        os.unlink(f"{room[0]}/{name}")
    assert os.listdir(room[1]) == []
    # The store compacts itself, because it is full, and has room then.
    for number in range(50):
        make_when_there_is_room(f"{room[0]}/new{number}")
    assert len(os.listdir(room[1])) == 50
