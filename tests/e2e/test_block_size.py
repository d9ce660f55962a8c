"""A pool's files in blocks of another size, and free space gathered, while both are used."""
import os

from cluster import until
from test_jobs import (MIB, PIECE, Worker, digest, finish, kill_active, pool_of, start,
                       write_in_pieces)

CLUSTER = {"mdcs": 2, "luns": "meta=1x512M,data=2x768M", "block_size": "16KiB"}
BLOCK, SMALL = 128 << 10, 16 << 10


def misplaced(cluster, path):
    """Extents of the file that do not lie as far behind a multiple of BLOCK as in the file."""
    found = cluster.reeladm("extents", path)
    assert found["extents"]
    return [extent for extent in found["extents"] if
            (extent["pool_block"] * found["block_bytes"] - extent["offset_bytes"]) % BLOCK]


def test_a_pool_gets_another_block_size(cluster, room):
    """… and back, with a kill of a controller each time, beside a program that writes."""
    one, two = room
    written = {name: write_in_pieces(f"{one}/{name}", 24 * MIB, seed)
               for seed, name in enumerate(("a", "b", "c"))}
    worker = Worker(f"{two}/worker", seed=3)
    worker.start()
    number = start(cluster, "restripe", "data", "block", "128K")
    kill_active(cluster)
    done = finish(cluster, number)
    assert done["state"] == "done" and done["kind"] == "align", done
    assert pool_of(cluster, "data")["block_bytes"] == BLOCK
    assert pool_of(cluster, "meta")["block_bytes"] == SMALL, "the volume's"
    later = write_in_pieces(f"{one}/later", 8 * MIB)
    content = worker.stop()
    assert {name: digest(f"{two}/{name}") for name in written} == written
    for name in [*written, "later"]:
        assert misplaced(cluster, f"{one}/{name}") == [], name
    assert digest(f"{one}/worker") == content and digest(f"{two}/later") == later
    back = finish(cluster, start(cluster, "restripe", "data", "block", "16K"))
    assert back["state"] == "done" and back["moved_bytes"] == 0, "small blocks are in large ones"
    assert pool_of(cluster, "data")["block_bytes"] == SMALL
    cluster.fsck()


def test_a_block_size_that_cannot_be_is_refused(cluster):
    for size, code, why in (("8K", 1, "at least that with which the volume was made"),
                            ("48K", 2, "no power of two"), ("2M", 2, "of two up to 1 MiB")):
        refused = cluster.tool("reeladm", "--mdc", cluster.where("mdc1"), "restripe", "data",
                               "block", size)
        assert refused.returncode == code and why in refused.stderr, refused.stderr


def free_runs(cluster):
    return next(pool for pool in cluster.reeladm("free")["pools"] if pool["name"] == "data")


def test_free_space_is_gathered(cluster, room):
    """Every second file is removed; what is left goes together, as do the gaps."""
    one, two = room
    names = [f"{n}" for n in range(200)]
    digests = {}
    for seed, name in enumerate(names):
        digests[name] = write_in_pieces(f"{one}/{name}", 2 * MIB if seed % 3 else PIECE, seed)
    for name in names[::2]:
        os.unlink(f"{one}/{name}")
        del digests[name]
    worker = Worker(f"{two}/worker", seed=5)
    worker.start()
    before = free_runs(cluster)
    number = start(cluster, "compact", "data")
    kill_active(cluster)
    done = finish(cluster, number)
    content = worker.stop()
    assert done["state"] == "done" and done["moved_bytes"] > 0, done
    until(lambda: free_runs(cluster)["runs"] < before["runs"])
    assert free_runs(cluster)["largest_run_bytes"] >= before["largest_run_bytes"]
    assert {name: digest(f"{two}/{name}") for name in digests} == digests
    assert digest(f"{one}/worker") == content
    cluster.fsck()
