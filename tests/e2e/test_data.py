"""File data: two clients on one file, sizes, holes, mappings, files without a name, direct I/O."""
import errno
import mmap
import os
import random
import subprocess
import sys

import pytest

from cluster import run

BLOCK = 16384


def put(path, data):
    with open(path, "wb", buffering=0) as file:
        assert file.write(data) == len(data)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def noise(length, seed=0):
    return random.Random(seed).randbytes(length)


def in_another_process(code, *arguments):
    """A page fault in a mount that hangs would hold Python's lock; there it can be killed."""
    run(sys.executable, "-B", "-c", code, *arguments)


@pytest.mark.parametrize("length", [1, 511, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 262144, 5_000_001])
def test_sizes_around_the_units(cluster, length):
    data = noise(length)
    put(f"{cluster.ws1}/size", data)
    assert get(f"{cluster.ws2}/size") == data


def test_random_writes_by_two_clients_against_a_model(room):
    one, two = room
    put(f"{one}/file", b"")
    files = [os.open(f"{path}/file", os.O_RDWR) for path in room]
    model, dice = bytearray(), random.Random(7)
    for step in range(1500 if os.environ.get("REEL_LONG") else 300):
        file = dice.choice(files)
        offset = dice.randrange(1 << 20)
        if dice.random() < 0.1:
            os.ftruncate(file, offset)
            model = model[:offset].ljust(offset, b"\0")
        else:
            data = noise(dice.choice((1, 100, 4096, BLOCK, 70000)), step)
            assert os.pwrite(file, data, offset) == len(data)
            model = model.ljust(offset, b"\0")
            model[offset:offset + len(data)] = data
        other = dice.choice(files)
        start = dice.randrange(1 << 20)
        assert os.pread(other, 50000, start) == model[start:start + 50000], f"step {step}"
        assert os.fstat(other).st_size == len(model), f"step {step}"
    for file in files:
        os.close(file)
    assert get(f"{two}/file") == get(f"{one}/file") == model


def test_append_by_two_clients_in_turn(room):
    expected = b""
    for number in range(100):
        line = b"%d %s\n" % (number, b"x" * (number * 7))
        with open(f"{room[number % 2]}/log", "ab") as file:
            file.write(line)
        expected += line
    assert get(f"{room[0]}/log") == expected


def test_truncate_and_holes(room):
    one, two = room
    put(f"{one}/file", b"x" * 100_000)
    os.truncate(f"{two}/file", 50_001)
    assert get(f"{one}/file") == b"x" * 50_001
    os.truncate(f"{one}/file", 90_000)  # what was cut off must not come back
    assert get(f"{two}/file") == b"x" * 50_001 + b"\0" * 39_999
    os.truncate(f"{two}/file", 0)
    assert os.stat(f"{one}/file").st_size == 0
    with open(f"{one}/file", "wb") as file:
        file.seek(1 << 40)
        file.write(b"end")
    status = os.stat(f"{two}/file")
    assert status.st_size == (1 << 40) + 3 and status.st_blocks * 512 < 1 << 30
    with open(f"{two}/file", "rb") as file:
        assert file.read(100_000) == b"\0" * 100_000
        file.seek((1 << 40) - 10)
        assert file.read() == b"\0" * 10 + b"end"
    os.truncate(f"{two}/file", 1 << 41)
    assert os.stat(f"{one}/file").st_size == 1 << 41


def test_freed_blocks_never_show_old_bytes(room):
    one, two = room
    put(f"{one}/secret", b"SECRET! " * (1 << 20))
    os.unlink(f"{one}/secret")
    for number in range(8):
        with open(f"{two}/file{number}", "wb") as file:
            for offset in range(0, 1 << 20, 50_000):
                file.seek(offset)
                file.write(b"x")
        assert b"SECRET" not in get(f"{one}/file{number}")


def test_unlinked_while_open(room):
    one, two = room
    for remover, keeper in ((one, one), (two, one)):
        put(f"{one}/file", b"text")
        with open(f"{keeper}/file", "r+b", buffering=0) as file:
            os.unlink(f"{remover}/file")
            assert os.listdir(one) == os.listdir(two) == []
            assert os.fstat(file.fileno()).st_nlink == 0
            assert file.read() == b"text"
            file.write(b"y" * 100_000)
            os.fsync(file.fileno())
            assert os.pread(file.fileno(), 200_000, 0) == b"text" + b"y" * 100_000
    put(f"{one}/old", b"old")
    put(f"{one}/new", b"new")
    with open(f"{two}/old", "rb", buffering=0) as file:
        os.rename(f"{one}/new", f"{one}/old")
        assert (file.read(), get(f"{two}/old")) == (b"old", b"new")


MAP_SHARED_CODE = """
import mmap, os, sys
path, other = sys.argv[1:]
with open(path, "r+b") as file:
    with mmap.mmap(file.fileno(), 0) as view:
        assert view[:4] == b"abcd"
        view[100000:100005] = b"mmap!"
        view.flush()
    with open(other, "rb") as there:
        there.seek(100000)
        assert there.read(5) == b"mmap!", "not seen by the other client"
"""


def test_mmap_shared(room):
    put(f"{room[0]}/file", b"abcd" * 50_000)
    in_another_process(MAP_SHARED_CODE, f"{room[0]}/file", f"{room[1]}/file")
    assert get(f"{room[0]}/file")[100_000:100_006] == b"mmap!b"


MAP_PRIVATE_CODE = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    view = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    view[0:4] = b"mine"
    assert view[:8] == b"mineabcd" and view[-4:] == b"abcd"
"""


def test_mmap_private(room):
    put(f"{room[0]}/file", b"abcd" * 50_000)
    in_another_process(MAP_PRIVATE_CODE, f"{room[1]}/file")
    assert get(f"{room[0]}/file")[:4] == b"abcd"


def test_programs_run_from_the_mount(room):
    run("cp", "/bin/ls", f"{room[0]}/ls")
    assert run(f"{room[1]}/ls", room[1]).split() == ["ls"]
    put(f"{room[0]}/script", b"#!/bin/sh\necho from the mount\n")
    os.chmod(f"{room[0]}/script", 0o755)
    assert subprocess.check_output([f"{room[1]}/script"]) == b"from the mount\n"
    os.chmod(f"{room[0]}/script", 0o644)
    with pytest.raises(PermissionError):
        subprocess.run([f"{room[1]}/script"])


def test_direct_io(room):
    one, two = room
    data = noise(4 << 20)
    buffer = mmap.mmap(-1, len(data))
    buffer[:] = data
    file = os.open(f"{one}/file", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    assert os.pwrite(file, buffer, 0) == len(data)
    os.close(file)
    file = os.open(f"{two}/file", os.O_RDONLY | os.O_DIRECT)
    back = mmap.mmap(-1, len(data))
    done = 0
    while done < len(data):
        done += os.preadv(file, [memoryview(back)[done:]], done)
    os.close(file)
    assert back[:] == data
    fails_at_end = os.open(f"{two}/file", os.O_RDONLY)
    assert os.pread(fails_at_end, 100, len(data)) == b""
    os.close(fails_at_end)


def test_open_flags(room):
    one, two = room
    put(f"{one}/file", b"text")
    os.close(os.open(f"{two}/file", os.O_WRONLY | os.O_TRUNC))
    assert os.stat(f"{one}/file").st_size == 0
    for flags, call in ((os.O_RDONLY, lambda f: os.write(f, b"x")),
                        (os.O_WRONLY, lambda f: os.read(f, 1))):
        file = os.open(f"{one}/file", flags)
        with pytest.raises(OSError) as caught:
            call(file)
        assert caught.value.errno == errno.EBADF
        os.close(file)
    file = os.open(f"{one}/file", os.O_WRONLY | os.O_APPEND)
    os.write(file, b"one ")
    put(f"{two}/file", b"TWO ")
    os.write(file, b"three")
    os.close(file)
    assert get(f"{two}/file") == b"TWO three"
