"""Small files, whose bytes lie in the metadata: what two hosts see of them while they grow, shrink
and move to blocks, and what a failover and a client's death leave of them."""
import contextlib
import os
import random

from cluster import until

CLUSTER = {"mdcs": 2, "clients": 2, "small_file_bytes": 16384, "luns": "meta=1x1G,data=2x1G",
           "session_lease_ms": 3000}
SMALL = 16384


def write(path, data, sync=True):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def read(path):
    with open(path, "rb") as file:
        return file.read()


def blocks(path):
    return os.stat(path).st_blocks


def patterned(size, seed):
    return random.Random(seed).randbytes(size)


def test_a_small_file_has_no_blocks_until_it_grows(room):
    data = patterned(5000, 1)
    write(f"{room[0]}/file", data)
    until(lambda: blocks(f"{room[1]}/file") == 10)  # its length, no block
    assert read(f"{room[1]}/file") == data
    with open(f"{room[1]}/file", "ab") as file:
        file.write(data)
    assert read(f"{room[0]}/file") == 2 * data
    until(lambda: blocks(f"{room[0]}/file") == 20)
    with open(f"{room[0]}/file", "ab") as file:
        file.write(patterned(SMALL, 2))
        os.fsync(file.fileno())
    assert blocks(f"{room[1]}/file") > 32
    assert read(f"{room[1]}/file") == 2 * data + patterned(SMALL, 2)


def test_what_is_cut_and_written_past_its_end_reads_as_zeros(room):
    write(f"{room[0]}/file", b"x" * 9000)
    os.truncate(f"{room[1]}/file", 100)
    os.truncate(f"{room[0]}/file", 40_000)
    with open(f"{room[1]}/file", "r+b") as file:
        file.seek(30_000)
        file.write(b"end")
    assert read(f"{room[0]}/file") == b"x" * 100 + bytes(29_900) + b"end" + bytes(40_000 - 30_003)


def test_two_hosts_see_one_file_whatever_its_size(room):
    """Writes, cuts and reads at random around the threshold, by either host, against a model."""
    chance, names = random.Random(7), [f"f{n}" for n in range(4)]
    model = {name: bytearray() for name in names}
    for name in names:
        write(f"{room[0]}/{name}", b"")
    for step in range(600):
        name = chance.choice(names)
        path, now = f"{room[chance.randrange(2)]}/{name}", model[name]
        what = chance.randrange(5)
        if what <= 1:
            at, data = chance.randrange(24_000), patterned(chance.randrange(1, 6000), step)
            with open(path, "r+b", buffering=0) as file:
                assert os.pwrite(file.fileno(), data, at) == len(data)
                if chance.randrange(3) == 0:
                    os.fsync(file.fileno())
            if at > len(now):
                now.extend(bytes(at - len(now)))
            now[at:at + len(data)] = data
        elif what == 2:
            size = chance.randrange(24_000)
            os.truncate(path, size)
            del now[size:]
            now.extend(bytes(size - len(now)))
        elif what == 3 and chance.randrange(2):
            write(path, b"", sync=False)
            now.clear()
        assert read(path) == now, f"step {step}, {path}"


def test_synced_small_files_outlive_a_failover_and_their_writer(cluster, room):
    for number in range(200):
        write(f"{room[0]}/{number}", patterned(number * 80, number))
    old = cluster.active()
    cluster.kill(old)
    for number in range(200, 250):
        write(f"{room[0]}/{number}", patterned(number * 60, number))
    file = os.open(f"{room[0]}/0", os.O_WRONLY)
    os.write(file, b"not synced")
    cluster.kill("ws1")
    with contextlib.suppress(OSError):  # its mount is gone
        os.close(file)
    for number in range(1, 250):
        size = number * (80 if number < 200 else 60)
        assert read(f"{room[1]}/{number}") == patterned(size, number)
    assert read(f"{room[1]}/0") in (b"", b"not synced")
    cluster.start(old)
    cluster.start("ws1")
    assert read(f"{room[0]}/249") == patterned(249 * 60, 249)
