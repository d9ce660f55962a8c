"""Small writes, which are in memory first: who sees them, and what is lost with a client."""
import os
import threading

import pytest

from cluster import BIN, run


def small_writes(file, count, size=3000):
    """Pieces in a row, and what they come to."""
    pieces = [bytes([65 + number % 26]) * size for number in range(count)]
    for piece in pieces:
        assert os.write(file, piece) == size
    return b"".join(pieces)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def make(path):
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def test_the_other_client_sees_each_write_at_once(room):
    one, two = room
    file = make(f"{one}/log")
    other = os.open(f"{two}/log", os.O_RDONLY)
    written = b""
    for number in range(50):
        line = b"line %d\n" % number
        os.write(file, line)
        written += line
        assert os.pread(other, len(written) + 1, 0) == written
        assert os.fstat(other).st_size == len(written)
    os.close(file)
    os.close(other)


def test_many_small_writes_of_all_kinds_meet(room):
    one, two = room
    file = make(f"{one}/file")
    expected = bytearray(small_writes(file, 400))
    large = b"L" * (2 << 20)
    for offset, data in ((100_000, large[:700_000]), (150_000, b"small"), (99_990, b"edge" * 5),
                         (1_199_000, b"beyond"), (3 << 20, b"far")):
        assert os.pwrite(file, data, offset) == len(data)
        expected = expected.ljust(offset, b"\0")
        expected[offset:offset + len(data)] = data
        assert os.pread(file, len(data) + 20, max(offset - 10, 0)) == \
            bytes(expected[max(offset - 10, 0):max(offset - 10, 0) + len(data) + 20])
    os.ftruncate(file, 1_100_001)
    os.pwrite(file, b"end", 1_100_500)
    expected = expected[:1_100_001].ljust(1_100_500, b"\0") + b"end"
    assert os.pread(file, 4 << 20, 0) == bytes(expected)
    assert os.lseek(file, 0, os.SEEK_HOLE) == len(expected)
    os.close(file)
    assert get(f"{two}/file") == bytes(expected)


def test_a_killed_client_loses_nothing_that_was_synced(cluster, room):
    one, two = room
    synced, unsynced = make(f"{one}/synced"), make(f"{one}/unsynced")
    kept = small_writes(synced, 200)
    os.fsync(synced)
    os.pwrite(synced, b"not synced", 0)
    lost = small_writes(unsynced, 200)
    cluster.kill("ws1")
    for file in (synced, unsynced):
        try:
            os.close(file)
        except OSError:
            pass
    assert get(f"{two}/synced")[10:] == kept[10:]
    # Of the rest there may be anything, but nothing that nobody wrote.
    found = get(f"{two}/unsynced")
    assert len(found) <= len(lost)
    for start in range(0, len(found), 3000):
        assert found[start:start + 3000].strip(b"\0") in (b"", lost[start:start + 3000])
    cluster.start("ws1")
    cluster.fsck()


def test_an_unmount_keeps_what_was_written(cluster, room):
    one, two = room
    for number in range(200):
        file = make(f"{one}/file{number}")
        os.write(file, b"%d" % number * 100)
        os.close(file)
    run("umount", cluster.ws1)
    cluster.start("ws1")
    for number in range(200):
        assert get(f"{two}/file{number}") == b"%d" % number * 100


def test_programs_that_write_little_at_a_time(cluster, room):
    one, two = room
    run("dd", "if=/dev/urandom", f"of={one}/dd", "bs=4k", "count=2000")
    assert run("cksum", f"{one}/dd").split()[:2] == run("cksum", f"{two}/dd").split()[:2]
    source = os.path.join(cluster.scratch, "source")
    os.mkdir(source)
    for number in range(300):
        with open(f"{source}/{number}", "wb") as file:
            file.write(os.urandom(number * 37))
    run("tar", "-C", cluster.scratch, "-cf", f"{one}/source.tar", "source")
    run("tar", "-C", two, "-xf", f"{two}/source.tar")
    run("diff", "-r", source, f"{one}/source")
    run("cp", "-a", f"{one}/source", f"{one}/copy")
    run("diff", "-r", source, f"{two}/copy")


def test_writers_side_by_side_on_both_hosts(room):
    record, count = 1000, 400

    def write(folder, turn):
        file = os.open(f"{folder}/shared", os.O_WRONLY)
        for number in range(turn, count, 4):
            os.pwrite(file, bytes([97 + turn]) * record, number * record)
            if number % 100 == turn:
                os.fsync(file)
        os.close(file)

    os.close(make(f"{room[0]}/shared"))
    writers = [threading.Thread(target=write, args=(room[turn % 2], turn)) for turn in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    expected = b"".join(bytes([97 + number % 4]) * record for number in range(count))
    assert get(f"{room[0]}/shared") == expected == get(f"{room[1]}/shared")


@pytest.mark.parametrize("option", ["writebehind=0", "writebehind=64k", "flush_on_close"])
def test_other_mount_options(cluster, room, option):
    mount = os.path.join(cluster.scratch, option.replace("=", "-"))
    os.mkdir(mount)
    where = cluster.where("mdc1")
    run(os.path.join(BIN, "mount.reelfs"), "reel", mount, "-o",
        f"mdc={where},luns={cluster.luns()},config={cluster.own_config()},{option},"
        f"log={mount}.log")
    try:
        folder = os.path.join(mount, os.path.basename(room[0]))
        file = make(f"{folder}/file")
        expected = small_writes(file, 300)
        os.close(file)
        assert get(f"{folder}/file") == expected == get(f"{room[1]}/file")
    finally:
        run("umount", mount, timeout=60)
