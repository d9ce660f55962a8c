"""A volume that grows, and pools that change, while two clients write, read and check: with
controllers that are killed meanwhile."""
import hashlib
import os
import subprocess
import sys
import threading

import pytest

from cluster import until

CLUSTER = {"mdcs": 2, "seat_ms": 3_000, "luns": "meta=1x512M,data=2x512M"}
MIB = 1 << 20

# Writes files of its own and those that it finds again, each with its checksum as its name's end;
# reads what the other host wrote. Ends with 0 when told to stop, if nothing was wrong.
WRITER = r"""
import hashlib, os, random, sys
here, prefix, keep = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(prefix)
stop = False
count = 0
made = []
while True:
    if os.path.exists(os.path.join(here, "stop")):
        break
    content = chance.randbytes(chance.choice([3_000, 200_000, 2_500_000]))
    name = os.path.join(here, f"{prefix}-{count}")
    with open(name + ".new", "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    os.rename(name + ".new", name + "-" + hashlib.sha1(content).hexdigest())
    made.append(name + "-" + hashlib.sha1(content).hexdigest())
    count += 1
    if len(made) > keep:
        os.unlink(made.pop(0))
    names = sorted(os.listdir(here))
    for other in chance.sample(names, min(2, len(names))):
        if other.endswith(".new") or other == "stop":
            continue
        try:
            with open(os.path.join(here, other), "rb") as file:
                found = hashlib.sha1(file.read()).hexdigest()
        except FileNotFoundError:
            continue
        if not other.endswith(found):
            sys.exit(f"{other} holds something else: {found}")
print(count)
"""


class Load:
    """A writer on each mount, until the end of the block: none may have seen an error."""

    def __init__(self, room, keep=40):
        self.room = room
        self.keep = keep

    def __enter__(self):
        self.writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, directory, f"w{n}", str(self.keep)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for n, directory in enumerate(self.room)]
        return self

    def goes_on(self):
        """Each has made files since."""
        def newest():
            return {name.split("-")[0]: max(int(other.split("-")[1]) for other in self.names()
                                            if other.split("-")[0] == name.split("-")[0])
                    for name in self.names()}
        until(lambda: len(newest()) == 2)
        before = newest()
        until(lambda: all(newest()[who] > seen for who, seen in before.items()))

    def names(self):
        return [name for name in os.listdir(self.room[0]) if not name.endswith(".new")
                and name != "stop"]

    def __exit__(self, kind, *_):
        with open(os.path.join(self.room[0], "stop"), "w"):
            pass
        for writer in self.writers:
            told, wrong = writer.communicate(timeout=200)
            if kind is None:
                assert writer.returncode == 0, wrong
                assert int(told) > 0


def image(cluster, name, mib=512):
    """A LUN that all hosts see from now on."""
    path = os.path.join(cluster.dir, "luns", name + ".img")
    with open(path, "wb") as file:
        file.truncate(mib * MIB)
    return path


def pool_of(cluster, name):
    return next(pool for pool in cluster.reeladm("show")["pools"] if pool["name"] == name)


def size_on(mount):
    facts = os.statvfs(mount)
    return facts.f_blocks * facts.f_frsize


def await_size(cluster, size):
    """On both: a client asks the controller about space now and then."""
    until(lambda: size_on(cluster.ws1) == size_on(cluster.ws2) == size)


def await_taken(cluster):
    until(lambda: not any("is used when all clients" in note
                          for note in cluster.reeladm("show")["notes"]))
    assert cluster.alarms() == []


@pytest.mark.seconds(240)
def test_luns_and_pools_are_added_under_load(cluster, room):
    before = size_on(cluster.ws1)
    with Load(room) as load:
        load.goes_on()
        said = cluster.reeladm("lun", "add", "data", image(cluster, "more1"),
                               image(cluster, "more2"))
        assert said["added_bytes"] > 1020 * MIB
        await_taken(cluster)
        await_size(cluster, before + said["added_bytes"])
        load.goes_on()
        cluster.reeladm("pool", "add", "audio", image(cluster, "audio1"),
                        "affinities=audio", "exclusive=yes", "breadth=256K")
        await_taken(cluster)
        assert pool_of(cluster, "audio")["free_bytes"] > 500 * MIB
        os.setxattr(room[0], "reelfs.affinity", b"audio")
        load.goes_on()
        cluster.reeladm("pool", "rename", "audio", "sound")
        cluster.reeladm("pool", "set", "sound", "affinities=audio,music")
        load.goes_on()
    pool = pool_of(cluster, "sound")
    assert pool["affinities"] == ["audio", "music"]
    assert pool["free_bytes"] < pool["total_bytes"], "files of that affinity lie there"
    cluster.fsck()


@pytest.mark.seconds(200)
def test_a_lun_that_grew_gives_what_it_has_gained(cluster, room):
    path = image(cluster, "long")
    cluster.reeladm("lun", "add", "data", path)
    await_taken(cluster)
    before = size_on(cluster.ws1)
    with Load(room) as load:
        os.truncate(path, 1024 * MIB)
        said = cluster.reeladm("lun", "grow", "data")
        await_taken(cluster)
        await_size(cluster, before + said["added_bytes"])
        load.goes_on()
    cluster.fsck()


@pytest.mark.seconds(200)
def test_nothing_new_comes_to_a_lun_that_is_down(cluster, room):
    cluster.reeladm("lun", "add", "data", image(cluster, "quiet"))
    await_taken(cluster)
    cluster.reeladm("lun", "down", "quiet.img")
    path = os.path.join(cluster.dir, "luns", "quiet.img")
    blocks = os.stat(path).st_blocks
    with Load(room) as load:
        load.goes_on()
        cluster.kill(cluster.active())
        load.goes_on()
    assert os.stat(path).st_blocks == blocks
    cluster.up()
    cluster.reeladm("lun", "up", "quiet.img")


@pytest.mark.seconds(400)
def test_controllers_die_while_the_map_changes(cluster, room):
    """Whenever it dies, the volume has the old map or the new one, and the command done again
    comes to what was asked for."""
    with Load(room, keep=20) as load:
        for n, wait in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            load.goes_on()
            path = image(cluster, f"extra{n}", 128)
            active = cluster.active()
            where = cluster.where(active)
            asked = subprocess.Popen(
                [os.path.join(cluster.bin, "reeladm"), "--config", cluster.own_config(), "--mdc",
                 where, "--volume", "reel", "lun", "add", "data", path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            threading.Event().wait(wait)  # tidy: sleep: it dies at another step each time
            cluster.kill(active)
            asked.wait(timeout=60)
            until(lambda: "active" in map(cluster.role, cluster.mdcs))
            cluster.start(active)
            names = [lun["name"] for lun in pool_of(cluster, "data")["luns"]]
            if f"extra{n}.img" not in names:
                cluster.reeladm("lun", "add", "data", path)
            await_taken(cluster)
        load.goes_on()
    cluster.fsck()


@pytest.mark.seconds(200)
def test_a_host_that_does_not_reach_the_lun_is_named(cluster):
    """It holds up the growth, and nobody's work; when it reaches the LUN, all goes on."""
    path = image(cluster, "far")
    before = size_on(cluster.ws1)
    hidden = path + ".hidden"
    cluster.kill("ws2", "STOP")
    try:
        cluster.reeladm("lun", "add", "data", path)
        until(lambda: any("1 of 2 have" in note for note in cluster.reeladm("show")["notes"]))
        os.rename(path, hidden)  # the controller and the other client have it open
    finally:
        cluster.kill("ws2", "CONT")
    until(lambda: any("ws2" in alarm and "has not taken the volume's new map" in alarm
                      for alarm in cluster.alarms()))
    assert size_on(cluster.ws1) == before
    with open(os.path.join(cluster.ws2, "works"), "wb") as file:
        file.write(b"x" * MIB)
        os.fsync(file.fileno())
    os.rename(hidden, path)
    await_taken(cluster)
    until(lambda: size_on(cluster.ws1) == size_on(cluster.ws2) > before)
    assert hashlib.sha1(open(os.path.join(cluster.ws1, "works"), "rb").read()).hexdigest() \
        == hashlib.sha1(b"x" * MIB).hexdigest()
