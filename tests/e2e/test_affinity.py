"""Affinities: which files' bytes lie on which pool's LUNs, by reading the LUNs."""
import errno
import os
import subprocess
import uuid

import pytest

from cluster import run

CLUSTER = {"pool": [
    {"name": "meta", "luns": 1, "size": "1GiB", "flags": ["metadata"]},
    {"name": "plain", "luns": 2, "size": "1GiB", "flags": ["data"]},
    {"name": "audio", "luns": 2, "size": "1GiB", "flags": ["data", "exclusive"],
     "affinities": ["audio"]}]}
PYTHON = "/usr/bin/python3"  # that other users may run
NAME = "reelfs.affinity"
BLOCK = 16384
HEAD = 64


def block():
    """A block that is like no other."""
    return uuid.uuid4().bytes * (HEAD // 16) + bytes(BLOCK - HEAD)


def write(path, blocks=1, mode="wb"):
    """New blocks into a file; their heads."""
    content = [block() for _ in range(blocks)]
    with open(path, mode, buffering=0) as file:
        file.write(b"".join(content))
        os.fsync(file.fileno())
    return [each[:HEAD] for each in content]


def heads_of(cluster, pool):
    """Of all blocks on a pool's LUNs."""
    heads = set()
    luns = next(each for each in cluster.reeladm("show")["pools"] if each["name"] == pool)["luns"]
    for lun in luns:
        with open(lun["path"], "rb", buffering=0) as image:
            end = image.seek(0, os.SEEK_END)
            offset = 0
            while offset < end:
                try:  # skip what was never written
                    offset = max(offset, image.seek(offset, os.SEEK_DATA))
                except OSError:
                    break
                offset -= offset % BLOCK
                heads.add(os.pread(image.fileno(), HEAD, offset))
                offset += BLOCK
    return heads


def pools_of(cluster, heads):
    """Where these blocks lie, pool by pool, each of them somewhere."""
    found = {pool: heads_of(cluster, pool) for pool in ("plain", "audio")}
    return [next(pool for pool, there in found.items() if head in there) for head in heads]


def test_files_inherit_the_directorys_affinity(cluster, room):
    one, two = room
    os.setxattr(one, NAME, b"audio")
    os.makedirs(f"{one}/takes/first")
    assert os.getxattr(f"{two}/takes/first", NAME) == b"audio"
    assert os.listxattr(one) == []
    there = write(f"{one}/take", 20) + write(f"{two}/takes/first/take", 20)
    assert os.getxattr(f"{one}/takes/first/take", NAME) == b"audio"
    elsewhere = write(f"{cluster.ws1}/plain", 20)
    assert pools_of(cluster, there) == ["audio"] * 40
    assert pools_of(cluster, elsewhere) == ["plain"] * 20
    cluster.restart()
    assert os.getxattr(one, NAME) == b"audio"
    assert pools_of(cluster, write(f"{one}/later", 20)) == ["audio"] * 20


def test_delegated_files_have_the_affinity(cluster, room):
    """Their first blocks were granted before they were made, some before the change."""
    one = room[0]
    names = (f"{one}/{number}" for number in range(1000))
    before, heads = cluster.counters(), {}
    for affinity in (b"", b"audio", b"", b"audio"):
        os.setxattr(one, NAME, affinity)
        heads[affinity] = heads.get(affinity, []) + \
            [head for _ in range(40) for head in write(next(names))]
    after = cluster.counters()
    made = after["operation.delegated"] - before["operation.delegated"]
    assert made > 40, "nothing was made under a delegation"
    assert pools_of(cluster, heads[b""]) == ["plain"] * 80
    assert pools_of(cluster, heads[b"audio"]) == ["audio"] * 80


@pytest.mark.parametrize("setter", [0, 1])
def test_a_file_gets_an_affinity(cluster, room, setter):
    """What it has stays; what it gets lies there, also through what has it open."""
    path, setting = f"{room[0]}/file", f"{room[setter]}/file"
    open(path, "w").close()
    os.setxattr(setting, NAME, b"audio")
    first = write(path, 8)
    os.removexattr(setting, NAME)
    with pytest.raises(OSError) as none:
        os.getxattr(path, NAME)
    assert none.value.errno == errno.ENODATA
    second = write(path, 8, "ab")
    with open(path, "ab", buffering=0) as file:
        third = block()
        file.write(third)
        os.setxattr(setting, NAME, b"audio")
        fourth = block()
        file.write(fourth)
        os.fsync(file.fileno())
    assert pools_of(cluster, first) == ["audio"] * 8
    assert pools_of(cluster, second) == ["plain"] * 8
    assert pools_of(cluster, [third[:HEAD], fourth[:HEAD]]) == ["plain", "audio"]


def test_df_shows_the_affinitys_space(cluster, room):
    def blocks(path):
        return os.statvfs(path).f_blocks

    plain = blocks(room[0])
    os.setxattr(room[0], NAME, b"audio")
    assert blocks(room[0]) > plain * 1.5
    assert blocks(cluster.ws1) == plain
    os.removexattr(room[0], NAME)
    assert blocks(room[0]) == plain


def test_owners_set_existing_affinities(cluster, room):
    path = f"{room[0]}/file"
    open(path, "w").close()
    with pytest.raises(OSError) as refused:
        os.setxattr(path, NAME, b"video")
    assert refused.value.errno == errno.EINVAL
    assert "no pool has the affinity video; there are: audio" in cluster.log("ws1")
    os.chmod(path, 0o666)  # else the kernel refuses it as a write
    user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", PYTHON, "-c",
            f"import os; os.setxattr('{path}', '{NAME}', b'audio')"]
    done = subprocess.run(user, capture_output=True, text=True, timeout=60)
    assert "Operation not permitted" in done.stderr
    os.chown(path, 1000, 1000)
    run(*user)


def test_reeladm_affinity(cluster, room):
    path = f"{room[0]}/file"
    open(path, "w").close()
    assert cluster.reeladm("affinity") == {"affinities": [{"affinity": "audio",
                                                           "pools": ["audio"]}]}
    assert cluster.reeladm("affinity", path) == {"paths": [{"path": path, "affinity": ""}]}
    cluster.reeladm("affinity", "set", "audio", path, room[0])
    assert os.getxattr(f"{room[1]}/file", NAME) == b"audio"
    assert cluster.reeladm("affinity", "clear", path)["paths"][0]["affinity"] == ""
    assert [each["affinity"] for each in cluster.reeladm("affinity", path, room[0])["paths"]] == \
        ["", "audio"]
    done = cluster.tool("reeladm", "affinity", "set", "video", path)
    assert done.returncode == 1 and 'no pool has the affinity "video"' in done.stderr
    done = cluster.tool("reeladm", "affinity", cluster.scratch)
    assert done.returncode == 1 and "no file or directory of a mounted ReelFS volume" in done.stderr
