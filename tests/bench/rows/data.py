"""Bytes: fio past the cache, and small reads of a file just read."""
import json
import os
import subprocess
import time

SECONDS = 3
DIRECT = {"read 1M depth 16, MB/s": ("read", "1M", 16),
          "write 1M depth 16, MB/s": ("write", "1M", 16),
          "read 4K depth 1, /s": ("randread", "4k", 1),
          "read 4K depth 16, /s": ("randread", "4k", 16)}


def fio(path, kind, size, depth):
    done = subprocess.run(
        ["fio", "--name=x", f"--filename={path}", "--direct=1", "--ioengine=io_uring",
         f"--rw={kind}", f"--bs={size}", f"--iodepth={depth}", "--size=1g", "--time_based",
         f"--runtime={SECONDS}", "--output-format=json", "--fallocate=none", "--overwrite=1"],
        stdout=subprocess.PIPE, text=True, check=True)
    job = json.loads(done.stdout)["jobs"][0]["write" if kind == "write" else "read"]
    return job["bw_bytes"] / 1e6 if size == "1M" else job["iops"]


def fill(path):
    with open(path, "wb") as file:
        block = os.urandom(1 << 20)
        for _ in range(1024):
            file.write(block)
        os.fsync(file.fileno())


def direct(place):
    path = os.path.join(place, "data")
    if not os.path.exists(path):  # (an empty file system has one)
        fill(path)
    return {f"direct {row}": fio(path, *job) for row, job in DIRECT.items()}


def bound(fuse, lun):
    """What a client could reach that adds nothing to the costs of FUSE and of the LUN."""
    return {row: 1 / (1 / fuse[row] + 1 / lun[row]) for row in fuse}


def small_reads(place):
    """100 bytes at a time, of a file that was read just before."""
    path = os.path.join(place, "small_reads")
    with open(path, "wb") as file:
        file.write(os.urandom(64 << 20))
        os.fsync(file.fileno())
    time.sleep(6)  # tidy: sleep: it counts as at rest after five seconds
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
        handle, count, began = file.fileno(), 0, time.monotonic()
        while time.monotonic() - began < SECONDS:
            for offset in range(0, 1_000_000, 100):
                os.pread(handle, 100, offset)
            count += 10_000
        found = count / (time.monotonic() - began)
    os.unlink(path)
    return {"pread of 100 bytes, /s": found}
