"""The metadata are restored on LUNs with reservations: what the dead controllers and mounts had
registered there keeps nobody out, and is taken away."""
import os

import pytest

from test_backup import content, dump_of, read, write

CLUSTER = {"mdcs": 2, "clients": 2, "lun_backend": "iscsi", "luns": "meta=1x512M,data=2x512M",
           "session_lease_ms": 3000}


@pytest.mark.parametrize("fresh", (False, True))
def test_metadata_are_restored_over_the_reservations_of_the_dead(cluster, room, fresh):
    """`fresh`: the metadata LUN is a new one, which knows of no controller."""
    files = {f"file{number}": content(number) for number in range(20)}
    for name, data in files.items():
        write(f"{room[0]}/{name}", data)
    names = [lun["name"] for pool in cluster.reeladm("show")["pools"] for lun in pool["luns"]]
    urls = [lun["path"] for pool in cluster.reeladm("show")["pools"] for lun in pool["luns"]]
    taken = cluster.reeladm("dump", dump_of(cluster))
    for name in list(files)[::2]:
        os.unlink(f"{room[0]}/{name}")
    write(f"{room[0]}/since", content(99))
    for host in ("ws1", "ws2", "mdc1", "mdc2"):
        cluster.kill(host)
    if fresh:
        cleared = cluster.tool("reel-label", "unreserve", urls[0], "--force", urls[0])
        assert cleared.returncode == 0, cleared.stderr
        with open(os.path.join(cluster.dir, "luns", f"{names[0]}.img"), "r+b") as image:
            image.write(bytes(64 << 20))
    luns = [part for url in urls for part in ("--luns", url)]
    restored = cluster.tool("mkfs.reelfs", "--restore", dump_of(cluster), *luns, "--metadata",
                            urls[0], "--force", urls[0])
    assert restored.returncode == 0, restored.stderr
    assert taken["dump"] in restored.stdout
    cluster.up()
    for mount in room:
        assert sorted(os.listdir(mount)) == sorted(files)
        for name, data in files.items():
            assert read(f"{mount}/{name}") == data, name
    write(f"{room[1]}/after", content(100))
    assert read(f"{room[0]}/after") == content(100)
