"""Honest free space: whose it is, what holds the rest, and a word before it runs out."""
import os
import shutil

from cluster import until
from json_schema import check

CLUSTER = {"pool": [
    {"name": "meta", "luns": 1, "size": "1GiB", "flags": ["metadata"]},
    {"name": "data", "luns": 2, "size": "256MiB", "flags": ["data"]},
    {"name": "audio", "luns": 1, "size": "256MiB", "flags": ["data", "exclusive"],
     "affinities": ["audio"]}]}
MIB = 1 << 20


def free(cluster):
    data = cluster.reeladm("free")
    check("free", data)
    return data


def use(cluster, affinity=""):
    return next(each for each in free(cluster)["uses"] if each["affinity"] == affinity)


def fill(path, size):
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // MIB):
            file.write(b"x" * MIB)
        os.fsync(file.fileno())


def test_whose_space_it_is(cluster, room):
    before, audio = use(cluster), use(cluster, "audio")
    assert before["pools"] == ["data"] and audio["pools"] == ["data", "audio"]
    assert audio["total_bytes"] > before["total_bytes"]
    os.mkdir(f"{room[0]}/sound")
    cluster.reeladm("affinity", "set", "audio", f"{room[0]}/sound")
    fill(f"{room[0]}/sound/one", 32 * MIB)
    assert use(cluster)["free_bytes"] == before["free_bytes"]
    assert audio["free_bytes"] - use(cluster, "audio")["free_bytes"] >= 32 * MIB
    pool = next(each for each in free(cluster)["pools"] if each["name"] == "audio")
    assert pool["largest_run_bytes"] > 64 * MIB and pool["runs"] >= 1
    assert sum(each["runs"] for each in pool["classes"]) == pool["runs"]


def test_what_is_removed_is_free_and_what_is_open_is_not(cluster, room):
    before = shutil.disk_usage(cluster.ws1).free
    fill(f"{room[0]}/open", 64 * MIB)
    assert before - shutil.disk_usage(cluster.ws1).free >= 64 * MIB
    with open(f"{room[0]}/open", "rb"):
        os.unlink(f"{room[0]}/open")
        until(lambda: free(cluster)["open_files"] == 1)
        assert free(cluster)["open_bytes"] >= 64 * MIB
        assert before - shutil.disk_usage(cluster.ws1).free >= 64 * MIB
    until(lambda: free(cluster)["open_files"] == 0)
    fill(f"{room[0]}/closed", 64 * MIB)
    os.unlink(f"{room[0]}/closed")
    # (close() returns before FUSE's RELEASE is served: for a moment the file may still be open.)
    until(lambda: before - shutil.disk_usage(cluster.ws1).free < 8 * MIB)


def test_a_full_volume_takes_what_was_removed_before(cluster, room):
    """As large a file as there is room for, removed and written again, is never refused."""
    size = (use(cluster)["free_bytes"] // MIB - 8) * MIB
    for _ in range(3):
        fill(f"{room[0]}/all", size)
        os.unlink(f"{room[0]}/all")


def test_there_is_an_alarm_before_it_is_full(cluster, room):
    def low(how=""):
        return [alarm for alarm in cluster.alarms()
                if "files without an affinity" in alarm and how in alarm]

    until(lambda: not low())
    size = (use(cluster)["free_bytes"] // MIB - 8) * MIB
    fill(f"{room[0]}/all", size)
    until(lambda: low("nearly used up"))  # at first it may but run low
    assert "reeladm free" in low("nearly used up")[0]
    os.unlink(f"{room[0]}/all")
    until(lambda: not low())
    assert "runs low" in cluster.log("mdc1") or "nearly used up" in cluster.log("mdc1")


def test_pieces_of_files_are_as_the_last_scrub_counted_them(cluster, room):
    fill(f"{room[0]}/file", MIB)
    cluster.reeladm("scrub", "start")
    until(lambda: cluster.reeladm("scrub")["state"] == "done")
    pieces = free(cluster)["pieces"]
    assert pieces["files"] > 0 and pieces["pieces"] > 0 and pieces["as_of"]
