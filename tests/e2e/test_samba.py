"""A volume re-exported by Samba, by two gateways at once, with the configuration that
deploy/samba/smb.conf recommends."""
import fcntl
import os
import struct
import threading

import pytest

from smb_gateway import OpenFile, SambaGateway

FORK = os.urandom(200 * 1024)
LONG = bool(os.environ.get("REEL_LONG"))
ROUNDS = 500 if LONG else 50

# Of smbtorture 4.17: how many tests pass, and which do not, on a local XFS share with the same
# configuration neither.
VERDICTS = {
    # of handles that outlive their connection
    "smb2.lock": (20, {"replay_smb3_specification_durable", "replay_smb3_specification_multi"}),
    "smb2.rename": (9, {"simple_nodelete", "no_share_delete_no_delete_access"}),
    "smb2.streams": (11, {"names", "rename", "rename2"}),  # of catia; streams are not renamed
    "smb2.delete-on-close-perms": (9, set()),
    "smb2.sharemode": (3, set()),
}
LARGE_STREAMS = {
    "vfs objects = fileid catia fruit streams_xattr acl_xattr":
        "vfs objects = fileid fruit streams_depot acl_xattr",
    "fruit:encoding = native": "fruit:encoding = private",
}
OPLOCKS = {
    "oplocks = no": "oplocks = yes",
    "level2 oplocks = no": "level2 oplocks = yes",
    "smb2 leases = no": "smb2 leases = yes",
}
# All of the suite waits for two minutes.
SOME = ("exclusive1", "exclusive9", "batch1", "levelii500", "stream1")
OPLOCK_TESTS = ["smb2.oplock"] if LONG else [f"smb2.oplock.{test}" for test in SOME]
OPLOCK_VERDICT = (39, {"batch20", "batch22b", "stream1"}) if LONG else (4, {"stream1"})


@pytest.fixture
def gateways(cluster, room, request):
    """Makes gateways of the test's directory, on ws1 and ws2."""
    os.chmod(room[0], 0o777)
    made = []

    def make(count=2, lines=()):
        for number in range(count):
            directory = os.path.join(cluster.scratch, f"{request.node.name}-{number}")
            made.append(SambaGateway(directory, room[number], lines))
        return made

    yield make
    for gateway in made:
        gateway.end()


@pytest.fixture
def fork(cluster):
    path = os.path.join(cluster.scratch, "fork")
    with open(path, "wb") as file:
        file.write(FORK)
    return path


def fetched(gateway, name, scratch):
    path = os.path.join(scratch, "fetched")
    gateway.does(f'get "{name}" {path}')
    with open(path, "rb") as file:
        return file.read()


def test_a_file_of_one_gateway_is_that_of_the_other(cluster, room, gateways, fork):
    first, second = gateways()
    first.does(f"put {fork} a; mkdir d; rename a d/b")
    assert fetched(second, "d/b", cluster.scratch) == FORK
    with open(os.path.join(room[1], "d", "b"), "r+b") as file:
        file.write(b"native")
    assert fetched(first, "d/b", cluster.scratch) == b"native" + FORK[6:]
    second.does("del d/b; rmdir d")
    assert os.listdir(room[0]) == []


def test_what_a_mac_keeps_beside_a_file_goes_with_it(cluster, room, gateways, fork):
    first, second = gateways()
    small = os.path.join(cluster.scratch, "small")
    with open(small, "wb") as file:
        file.write(FORK[:60_000])
    first.does(f"put {small} clip; put {fork} clip:AFP_Resource; put {small} clip:tags")
    first.does("rename clip take")
    assert fetched(second, "take:AFP_Resource", cluster.scratch) == FORK
    assert fetched(second, "take:tags", cluster.scratch) == FORK[:60_000]
    second.does("del take")
    assert os.listdir(room[0]) == []


def test_large_streams_with_the_other_lines(cluster, room, gateways, fork):
    first, second = gateways(lines=LARGE_STREAMS)
    first.does(f"put {fork} clip; put {fork} clip:large")
    first.does("rename clip take")
    assert fetched(second, "take:large", cluster.scratch) == FORK


def test_locks_are_those_of_the_cluster(cluster, room, gateways):
    first, second = gateways()
    one, other = OpenFile(first, "f"), OpenFile(second, "f")
    one.write(0, b"12345678")
    assert one.lock(0, 4) and not other.lock(3, 4) and other.lock(4, 4)
    with open(os.path.join(room[1], "f"), "r+b") as native:
        with pytest.raises(OSError):
            fcntl.lockf(native, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
        one.unlock(0, 4)
        fcntl.lockf(native, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
        assert not one.lock(0, 4)
    assert one.lock(0, 4)
    one.close()
    assert other.lock(0, 4), "a lock went with its file"
    other.close()


def test_two_gateways_count_in_one_file(cluster, room, gateways):
    made = gateways()
    made_it = OpenFile(made[0], "count")
    made_it.write(0, bytes(8))
    made_it.close()
    errors = []

    def count(gateway):
        try:
            file = OpenFile(gateway, "count")
            for _ in range(ROUNDS):
                while not file.lock(0, 8):
                    pass
                (value,) = struct.unpack("<Q", file.read(0, 8))
                file.write(0, struct.pack("<Q", value + 1))
                file.unlock(0, 8)
            file.close()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=count, args=(gateway,)) for gateway in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with open(os.path.join(room[1], "count"), "rb") as file:
        assert struct.unpack("<Q", file.read()) == (2 * ROUNDS,)


@pytest.mark.parametrize("suite", VERDICTS)
def test_smbtorture(gateways, suite):
    (gateway,) = gateways(1)
    assert gateway.verdict_of(suite) == VERDICTS[suite]


def test_smbtorture_with_oplocks(gateways):
    (gateway,) = gateways(1, OPLOCKS)
    assert gateway.verdict_of(*OPLOCK_TESTS) == OPLOCK_VERDICT
