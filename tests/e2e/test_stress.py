"""Other people's torturers in the mount: fio with verification, and stress-ng."""
import os
import shutil

import pytest

from cluster import run

LONG = bool(os.environ.get("REEL_LONG"))
SECONDS = 120 if LONG else 6
# Each stresses one kind of call and, by --verify, checks its outcome.
STRESSORS = ("filename", "dentry", "rename", "symlink", "link", "fallocate", "xattr", "dir",
             "fstat", "seek", "hdd", "utime", "chmod", "touch", "iomix", "fpunch", "copy-file",
             "io", "sync-file", "mmap")
FIO = {
    "direct": ("--ioengine=libaio", "--iodepth=8", "--direct=1", "--rw=randwrite", "--bs=4k"),
    "buffered": ("--ioengine=psync", "--rw=randrw", "--bsrange=1k-64k", "--bs_unaligned=1"),
    "mapped": ("--ioengine=mmap", "--rw=randwrite", "--bs=4k"),
    "stream": ("--ioengine=io_uring", "--iodepth=16", "--direct=1", "--rw=write", "--bs=1m"),
    "falloc": ("--ioengine=psync", "--rw=randwrite", "--bs=8k", "--fallocate=native", "--fsync=50"),
}


@pytest.mark.seconds(900)
@pytest.mark.parametrize("job", FIO)
def test_fio_verify(cluster, room, job):
    size = "512m" if LONG else "48m"
    run("fio", f"--name={job}", f"--directory={room[0]}", f"--size={size}", "--numjobs=2",
        "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_dump=0",
        "--group_reporting", *FIO[job], cwd=cluster.scratch)  # where it leaves files of its own


@pytest.mark.seconds(3600 if LONG else 600)
@pytest.mark.parametrize("stressor", STRESSORS)
def test_stress_ng(cluster, room, stressor):
    if shutil.which("stress-ng") is None:
        pytest.fail("stress-ng is missing: deploy/install-deps test")
    options = ["--hdd-bytes", "32m", "--fallocate-bytes", "64m", "--iomix-bytes", "32m",
               "--copy-file-bytes", "128m", "--sync-file-bytes", "32m", "--mmap-bytes", "16m",
               "--mmap-file"] if stressor != "mmap" else ["--mmap-bytes", "16m", "--mmap-file"]
    run("stress-ng", f"--{stressor}", "2", "--timeout", f"{SECONDS}s", "--verify", "--temp-path",
        room[0], *options, timeout=SECONDS + 300)
