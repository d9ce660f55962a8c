"""Jobs: the data of files move while programs read and write them."""
import hashlib
import os
import random
import threading

import pytest
from cluster import until

CLUSTER = {"mdcs": 2, "pool": [
    {"name": "meta", "luns": 1, "size": "1GiB", "flags": ["metadata"]},
    {"name": "data", "luns": 2, "size": "1GiB", "flags": ["data"]},
    {"name": "more", "luns": 2, "size": "512MiB", "flags": ["data", "exclusive"],
     "affinities": ["more"]}]}
MIB = 1 << 20
PIECE = 64 << 10


def write_in_pieces(path, size, seed=1):
    """A file whose blocks were asked for in no order; the digest of its content."""
    content = random.Random(seed).randbytes(size)
    offsets = list(range(0, size, PIECE))
    random.Random(seed).shuffle(offsets)
    with open(path, "wb", buffering=0) as file:
        for offset in offsets:
            assert os.pwrite(file.fileno(), content[offset:offset + PIECE], offset) == PIECE
            os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def digest(path):
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def job(cluster, number):
    found = [each for each in cluster.reeladm("jobs")["jobs"] if each["job"] == number]
    assert len(found) == 1
    return found[0]


def finish(cluster, number):
    """The job as it ended."""
    found = {}

    def over():
        found.update(job(cluster, number))
        return found["state"] not in ("running", "paused")
    until(over)
    return found


def pool_of(cluster, name):
    return next(pool for pool in cluster.reeladm("show")["pools"] if pool["name"] == name)


def start(cluster, *words):
    return cluster.reeladm(*words)["jobs"][0]["job"]


def kill_active(cluster):
    """The other one serves afterwards, and the killed one stands by."""
    killed = cluster.active()
    cluster.kill(killed)
    until(lambda: "active" in map(cluster.role, cluster.mdcs))
    cluster.start(killed)


class Worker(threading.Thread):
    """Writes, cuts and reads one file at random, and knows what is to be in it."""
    SIZE = 4 * MIB

    def __init__(self, path, seed):
        super().__init__()
        self.path, self.random = path, random.Random(seed)
        self.model = bytearray()
        self.done, self.problem, self.rounds = False, None, 0

    def run(self):
        try:
            with open(self.path, "w+b", buffering=0) as file:
                while not self.done:
                    self.step(file.fileno())
                    self.rounds += 1
                os.fsync(file.fileno())
        except (OSError, AssertionError) as problem:
            self.problem = problem

    def step(self, fd):
        offset = self.random.randrange(self.SIZE)
        length = self.random.choice((100, 4096, PIECE, 300_000))
        if self.random.random() < 0.02:
            os.ftruncate(fd, offset)
            self.model = (self.model + bytes(max(0, offset - len(self.model))))[:offset]
        elif self.random.random() < 0.5:
            data = self.random.randbytes(length)
            assert os.pwrite(fd, data, offset) == length
            if offset > len(self.model):
                self.model += bytes(offset - len(self.model))
            self.model[offset:offset + length] = data
        else:
            assert os.pread(fd, length, offset) == self.model[offset:offset + length], \
                f"{self.path} at {offset}, round {self.rounds}"

    def stop(self):
        self.done = True
        self.join()
        assert self.problem is None, self.problem
        return hashlib.sha256(self.model).hexdigest()


def test_a_file_in_pieces_becomes_whole(cluster, room):
    one, two = room
    written = write_in_pieces(f"{one}/film", 48 * MIB)
    whole = write_in_pieces(f"{one}/other", PIECE)
    first = finish(cluster, start(cluster, "defrag", f"{one}/film"))
    assert first["state"] == "done" and first["moved_bytes"] == 48 * MIB, first
    assert digest(f"{one}/film") == digest(f"{two}/film") == written
    again = finish(cluster, start(cluster, "defrag", f"{two}/film"))
    assert again["state"] == "done" and again["moved_bytes"] == 0, again
    assert digest(f"{two}/other") == whole


def test_a_pool_is_drained(cluster, room):
    one, two = room
    os.setxattr(one, "reelfs.affinity", b"more")
    written = {name: write_in_pieces(f"{one}/{name}", 8 * MIB, seed)
               for seed, name in enumerate(("a", "b", "c"))}
    free = {pool["name"]: pool["free_bytes"] for pool in cluster.reeladm("show")["pools"]}
    done = finish(cluster, start(cluster, "drain", "more"))
    assert done["state"] == "done" and done["moved_bytes"] >= 24 * MIB, done
    pools = {pool["name"]: pool for pool in cluster.reeladm("show")["pools"]}
    assert all(lun["closed"] for lun in pools["more"]["luns"]), "nothing comes there any more"
    assert pools["data"]["free_bytes"] == free["data"] - done["moved_bytes"]
    assert {name: digest(f"{two}/{name}") for name in written} == written
    refused = cluster.tool("reeladm", "--mdc", cluster.where("mdc1"), "drain", "meta")
    assert refused.returncode == 1 and "holds the metadata" in refused.stderr, refused.stderr


def test_a_pool_is_emptied_filled_and_striped_anew(cluster, room):
    """By LUN, to the pool of an affinity, and to another breadth: with two kills of controllers."""
    one, two = room
    written = {name: write_in_pieces(f"{one}/{name}", 24 * MIB, seed)
               for seed, name in enumerate(("a", "b", "c"))}
    for name in written:
        os.setxattr(f"{one}/{name}", "reelfs.affinity", b"more")
    cluster.reeladm("pool", "up", "more")
    placed = finish(cluster, start(cluster, "place"))
    assert placed["state"] == "done" and placed["moved_bytes"] >= 72 * MIB, placed
    free = pool_of(cluster, "more")["free_bytes"]
    assert free <= pool_of(cluster, "more")["total_bytes"] - 72 * MIB
    worker = Worker(f"{two}/worker", seed=7)
    worker.start()
    before = pool_of(cluster, "more")
    number = start(cluster, "restripe", "more", "breadth", "1M")
    for _ in range(2):
        kill_active(cluster)
    done = finish(cluster, number)
    worker.stop()
    assert done["state"] == "done" and done["moved_bytes"] >= 72 * MIB, (done["problem"], done)
    after = pool_of(cluster, "more")
    assert after["breadth_bytes"] == MIB != before["breadth_bytes"]
    assert after["total_bytes"] >= before["total_bytes"] - 4 * MIB, "a stripe may be left over"
    until(lambda: cluster.alarms() == [])
    assert {name: digest(f"{two}/{name}") for name in written} == written
    assert {name: digest(f"{one}/{name}") for name in written} == written
    drained = finish(cluster, start(cluster, "drain", "lun", after["luns"][0]["name"]))
    assert drained["state"] == "done" and drained["moved_bytes"] >= 72 * MIB, drained
    assert {name: digest(f"{two}/{name}") for name in written} == written


def test_a_job_is_paused_resumed_and_cancelled(cluster, room):
    write_in_pieces(f"{room[0]}/film", 32 * MIB)
    number = start(cluster, "defrag", f"{room[0]}/film", "rate", "64K")
    assert cluster.reeladm("jobs", "pause", str(number))["jobs"][0]["state"] == "paused"
    cluster.reeladm("jobs", "resume", str(number))
    assert cluster.reeladm("jobs", "cancel", str(number))["jobs"][0]["state"] == "cancelled"
    assert job(cluster, number)["moved_bytes"] < 32 * MIB


@pytest.mark.seconds(600)
def test_programs_lose_nothing_while_their_files_move(cluster, room):
    """… and while controllers die."""
    workers = [Worker(f"{room[n % 2]}/file{n}", seed=n) for n in range(2)]
    still = write_in_pieces(f"{room[0]}/still", 32 * MIB)
    for worker in workers:
        worker.start()
    moved = 0
    for name in ("file0", "still", "file1"):
        number = start(cluster, "defrag", f"{room[0]}/{name}", "rate", "64M")
        if name == "still":
            until(lambda: job(cluster, number)["moved_bytes"] > 0 or
                  job(cluster, number)["state"] != "running")
            kill_active(cluster)
        done = finish(cluster, number)
        assert done["state"] == "done", done
        moved += done["moved_bytes"]
    digests = [worker.stop() for worker in workers]
    assert moved > 0
    for n, (worker, expected) in enumerate(zip(workers, digests)):
        assert worker.rounds > 10
        assert digest(f"{room[1 - n % 2]}/file{n}") == expected, worker.path
    assert digest(f"{room[1]}/still") == still
    cluster.fsck()
