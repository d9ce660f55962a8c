"""A volume that was used, stopped and damaged: fsck.reelfs --repair, and used again."""
import glob
import os

from cluster import run

MIB = 1 << 20


def write(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


def stop(cluster):
    for host in ("ws1", "ws2", "mdc1"):
        if cluster.hosts()[host]["pid"]:
            cluster.kill(host, "TERM")


def start(cluster):
    cluster.up()


def fsck(cluster, *arguments):
    return cluster.tool("fsck.reelfs", "reel", "--luns", cluster.luns(), *arguments)


def flip(path, offset):
    with open(path, "r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, offset)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 4]), offset)


def offsets_of(needle, path):
    """Where it stands in the file; holes are passed over."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = 0
        while end < size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # no data follow
                return
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            part = os.pread(file.fileno(), end - start, start)
            at = part.find(needle)
            while at >= 0:
                yield start + at
                at = part.find(needle, at + 1)


def content(number):
    return b"%05d" % number * 2000


def test_labels_and_superblock(cluster, room):
    write(f"{room[0]}/file", content(1))
    stop(cluster)
    images = sorted(glob.glob(cluster.luns()))
    for image in images:
        flip(image, 20)  # its label
    flip(images[0], 64 * 1024 + 50)  # a copy of the volume descriptor
    checked = fsck(cluster)
    assert checked.returncode == 4, checked.stdout + checked.stderr
    repaired = fsck(cluster, "--repair")
    assert repaired.returncode == 1, repaired.stdout + repaired.stderr
    assert "label rewritten from its copy" in repaired.stdout
    assert fsck(cluster).returncode == 0
    assert fsck(cluster, "--repair").returncode == 0, "a second repair has nothing to do"
    start(cluster)
    with open(f"{room[1]}/file", "rb") as file:
        assert file.read() == content(1)


def test_damaged_metadata(cluster, room):
    """Bits of the metadata store flip: what can be read of the tree is there again, and usable."""
    for number in range(300):
        write(f"{room[0]}/file{number:03}", content(number))
    stop(cluster)
    # The records of these files stand in the store's log or tables, which hold names as they are.
    damaged = 0
    for image in sorted(glob.glob(cluster.luns())):
        for offset in offsets_of(b"file150", image):
            flip(image, offset + 2)
            damaged += 1
    assert damaged > 0
    checked = fsck(cluster)
    assert checked.returncode == 4, checked.stdout + checked.stderr
    refused = fsck(cluster, "-p")
    assert refused.returncode == 4, "something is lost: not without being asked to"
    repaired = fsck(cluster, "--repair")
    assert repaired.returncode == 1, repaired.stdout + repaired.stderr
    assert fsck(cluster).returncode == 0
    start(cluster)
    kept = 0
    for folder, _, names in os.walk(cluster.ws1):
        for name in names:
            if name.startswith("file") and len(name) == 7:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                # Nobody's bytes but its own, wherever it is found.
                assert data in (content(int(name[4:])), b"") or not data.strip(b"\0")
                kept += data != b""
    # A log is cut at its first damage: what was made before it is there.
    assert kept >= 140, f"{kept} of 300 files are left:\n{repaired.stdout}"
    write(f"{cluster.ws1}/after", content(7))
    with open(f"{cluster.ws2}/after", "rb") as file:
        assert file.read() == content(7)
    run("rm", "-rf", f"{cluster.ws1}/lost+found")
    cluster.fsck()


def test_repair_is_refused_while_served(cluster):
    refused = fsck(cluster, "--repair")
    assert refused.returncode == 8 and "in use" in refused.stderr
