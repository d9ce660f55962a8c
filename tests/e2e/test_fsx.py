"""Random operations on one file against a model, by seeds: tests/fsx on one mount and on two, and
by several programs that map the file and write it at once."""
import os
import subprocess

import pytest

from cluster import BIN

LONG = bool(os.environ.get("REEL_LONG"))
FSX = os.path.join(os.path.dirname(BIN), "test", "fsx")
FIRST_SEED = int(os.environ.get("REEL_SEED", "1"))
# name, mounts, bytes of the file, seconds in CI and under --long (ten minutes together)
JOBS = [("one", 1, 1 << 20, 15, 180), ("two", 2, 1 << 20, 20, 240), ("small", 2, 60_000, 10, 90),
        ("large", 1, 64 << 20, 10, 90)]
ROUND_SECONDS = 5
BESIDE = os.path.join(os.path.dirname(BIN), "test", "beside")


@pytest.mark.seconds(600)
@pytest.mark.parametrize("job", JOBS, ids=[job[0] for job in JOBS])
def test_random_operations(cluster, room, job):
    name, mounts, size, ci_seconds, long_seconds = job
    paths = [os.path.join(mount, "file") for mount in room[:mounts]]
    rounds = max(1, (long_seconds if LONG else ci_seconds) // ROUND_SECONDS)
    for seed in range(FIRST_SEED, FIRST_SEED + rounds):
        done = subprocess.run([FSX, "--seed", str(seed), "--seconds", str(ROUND_SECONDS),
                               "--size", str(size), *paths], text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        os.unlink(paths[0])


@pytest.mark.seconds(600)
@pytest.mark.parametrize("wish", [[], ["--resize"]], ids=["plain", "resize"])
def test_programs_that_map_and_write_one_file(cluster, room, wish):
    """Each sees what it wrote by either way, and so does another host after fsync(2)."""
    paths = [os.path.join(mount, "file") for mount in room[:2]]
    for seed in range(FIRST_SEED, FIRST_SEED + (30 if LONG else 3)):
        done = subprocess.run([BESIDE, "--seed", str(seed), "--seconds", "3", *wish, *paths],
                              text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=120)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        os.unlink(paths[0])
