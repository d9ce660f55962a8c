"""Four workstations that change the same names and sizes at once: one wins, and what the others see
is one state or the other."""
import contextlib
import errno
import os
import struct

import pytest

from run_all import run_all, meet

CLUSTER = {"clients": 4, "luns": "meta=1x1G,data=2x2G"}
LONG = bool(os.environ.get("REEL_LONG"))
ROUNDS = 3000 if LONG else 200
KIB, MIB = 1 << 10, 1 << 20
pytestmark = pytest.mark.seconds(1800 if LONG else 240)


def put(path, data):
    with open(path, "wb", buffering=0) as file:
        assert file.write(data) == len(data)


def get(path):
    with open(path, "rb", buffering=0) as file:
        return file.read()


# ---- rename over a file that others read

def version_of(number):
    """The whole file of one version, of a size of its own."""
    return struct.pack("<Q", number) * (1 + number * 977 % 20_000)


def replace_often(place):
    meet()
    for number in range(1, ROUNDS + 1):
        put(f"{place}/new", version_of(number))
        os.rename(f"{place}/new", f"{place}/file")


def read_while_replaced(place):
    meet()
    seen = 0
    while seen < ROUNDS:
        data = get(f"{place}/file")  # always there
        number = struct.unpack_from("<Q", data)[0]
        assert number >= seen, f"version {number} after {seen}"
        assert data == version_of(number), f"of version {number} but mixed, {len(data)} bytes"
        seen = number


def test_a_file_is_replaced_while_others_read_it(room):
    put(f"{room[0]}/file", version_of(0))
    run_all((replace_often, room[0]), *((read_while_replaced, place) for place in room[1:]))


# ---- exactly one wins

def link_mine(place, host):
    os.link(f"{place}/of{host}", f"{place}/name")


def rename_there(place, host):
    os.rename(f"{place}/name", f"{place}/taken{host}")


def make_exclusive(place, _):
    os.close(os.open(f"{place}/name", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


# What each host tries, whether the name is there before, and what those get that come too late.
RACES = {
    "mkdir": (lambda place, _: os.mkdir(f"{place}/name"), None, errno.EEXIST),
    "create": (make_exclusive, None, errno.EEXIST),
    "link": (link_mine, None, errno.EEXIST),
    "symlink": (lambda place, host: os.symlink(f"{host}", f"{place}/name"), None, errno.EEXIST),
    "mknod": (lambda place, _: os.mkfifo(f"{place}/name"), None, errno.EEXIST),
    "rename": (rename_there, "file", errno.ENOENT),
    "unlink": (lambda place, _: os.unlink(f"{place}/name"), "file", errno.ENOENT),
    "rmdir": (lambda place, _: os.rmdir(f"{place}/name"), "directory", errno.ENOENT),
}


def try_in_rounds(race, place, host):
    """The errno of each round; 0: won."""
    attempt, before, _ = RACES[race]
    outcomes = []
    for _ in range(ROUNDS):
        if host == 0:
            for entry in os.scandir(place):
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry)
                else:
                    os.unlink(entry)
            if before == "directory":
                os.mkdir(f"{place}/name")
            elif before == "file":
                put(f"{place}/name", b"")
            for other in range(4):
                put(f"{place}/of{other}", b"")
        meet()
        try:
            attempt(place, host)
            outcomes.append(0)
        except OSError as error:
            outcomes.append(error.errno)
        meet()
    return outcomes


@pytest.mark.parametrize("race", RACES)
def test_exactly_one_wins(room, race):
    outcomes = run_all(*((try_in_rounds, race, place, host) for host, place in enumerate(room)))
    for together in zip(*outcomes):
        assert sorted(together) == [0] + 3 * [RACES[race][2]], together


# ---- unlinked while open elsewhere

def read_to_the_end(place, data):
    with open(f"{place}/film", "rb", buffering=0) as file:
        assert file.read(100) == data[:100]
        meet()  # all have it open
        meet()  # its name is gone
        back = b"".join(iter(lambda: file.read(64 * KIB), b""))
        assert data[:100] + back == data
        assert os.fstat(file.fileno()).st_nlink == 0
        meet()


def unlink_and_overwrite(place, data):
    meet()
    os.unlink(f"{place}/film")
    meet()
    for number in range(20):  # which would like its blocks
        put(f"{place}/other{number}", bytes([number]) * len(data))
    meet()


def test_unlinked_while_open_it_stays_readable_to_the_end(room):
    data = os.urandom(3 * MIB + 77)
    put(f"{room[0]}/film", data)
    run_all((unlink_and_overwrite, room[3], data),
            *((read_to_the_end, place, data) for place in room[:3]))
    assert "film" not in os.listdir(room[1])


# ---- truncated and written anew while others read

def rewrite_often(place):
    """Two states, by turns in place; then the last one."""
    meet()
    with open(f"{place}/file", "r+b", buffering=0) as file:
        for number in range(ROUNDS):
            letter, size = ((b"A", MIB + 5), (b"B", 300 * KIB + 7))[number % 2]
            file.truncate(0)
            assert os.pwrite(file.fileno(), letter * size, 0) == size
        file.truncate(0)
    put(f"{place}/file", b"end")


def use_freed_blocks(place, end):
    meet()
    number = 0
    while get(end) != b"end":
        path = f"{place}/other{number % 7}"
        put(path, b"X" * 400 * KIB)
        if number % 3:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{place}/other{number * 5 % 7}")
        number += 1


def read_while_rewritten(place):
    meet()
    with open(f"{place}/file", "rb", buffering=0) as file:
        while True:
            data = os.pread(file.fileno(), 2 * MIB, 0)
            if data == b"end":
                return
            assert len(data) <= MIB + 5
            assert set(data) <= set(b"AB\0"), bytes(set(data))


def test_truncated_while_others_read(room):
    """What a reader gets are bytes of the states, or zeros; never another file's."""
    put(f"{room[0]}/file", b"")
    run_all((rewrite_often, room[0]), (read_while_rewritten, room[1]),
            (read_while_rewritten, room[2]), (use_freed_blocks, room[3], f"{room[3]}/file"))
