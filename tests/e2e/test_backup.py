"""The metadata LUN is lost: a dump that was taken under load is restored onto a new one, as
docs/operations.md says."""
import json
import os
import subprocess
import threading

from cluster import FAILING, run, until

CLUSTER = {"mdcs": 2, "clients": 2, "luns": "meta=1x512M,data=2x1G", "session_lease_ms": 2000}
MIB = 1 << 20
ENOUGH_WRITTEN = 86  # the status of programs of build/PRESET/failing


def content(number):
    return (b"%07d\n" % number) * 20000


def write(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Load(threading.Thread):
    """Makes, replaces and removes files of its own until it is told to end."""

    def __init__(self, directory):
        super().__init__()
        self.directory, self.ends, self.rounds = directory, threading.Event(), 0
        os.mkdir(directory)
        self.start()

    def run(self):
        while not self.ends.is_set():
            number = self.rounds % 40
            path = os.path.join(self.directory, f"load{number}")
            if self.rounds % 3 == 2 and os.path.exists(path):
                os.unlink(path)
            else:
                write(path + ".new", content(self.rounds))
                os.rename(path + ".new", path)
            self.rounds += 1

    def finish(self):
        self.ends.set()
        self.join()
        assert self.rounds > 0


def stop(cluster, *hosts):
    for host in hosts:
        if cluster.hosts()[host]["pid"]:
            cluster.kill(host, "TERM")


def restore(cluster, *arguments):
    return cluster.tool("mkfs.reelfs", "--restore", dump_of(cluster), "--luns", cluster.luns(),
                        *arguments)


def dump_of(cluster):
    return os.path.join(cluster.scratch, "reel.dump")


def lose_metadata(cluster):
    """A new LUN, with nothing on it, in the place of the one with the metadata."""
    image = os.path.join(cluster.dir, "luns", "meta1.img")
    size = os.path.getsize(image)
    os.unlink(image)
    with open(image, "wb") as file:
        file.truncate(size)
    return image


def test_metadata_are_lost_and_restored(cluster, room):
    here, there = room
    kept = {}
    for number in range(60):
        name = f"kept{number:03}"
        write(f"{here}/{name}", content(number))
        kept[name] = content(number)
    os.mkdir(f"{here}/folder")
    write(f"{here}/folder/inside", content(999))
    os.symlink("folder/inside", f"{here}/link")
    os.link(f"{here}/kept000", f"{here}/second-name")
    os.setxattr(f"{here}/kept001", "user.colour", b"green")

    load = Load(f"{there}/load")
    taken = cluster.reeladm("dump", dump_of(cluster))
    assert taken["bytes"] == os.path.getsize(dump_of(cluster))
    shown = cluster.reeladm("show")
    assert shown["dump"] == taken["dump"]

    # What the dump names goes on: files of that time are removed, cut and replaced, and the space
    # that new files get is none of theirs.
    for number in range(0, 60, 3):
        os.unlink(f"{here}/kept{number:03}")
    for number in range(1, 60, 3):
        os.truncate(f"{here}/kept{number:03}", 0)
    for number in range(2, 60, 6):
        write(f"{here}/new", content(5000 + number))
        os.rename(f"{here}/new", f"{here}/kept{number:03}")
    for number in range(40):
        write(f"{here}/since{number}", content(7000 + number) * 20)
    os.rename(f"{here}/folder", f"{here}/moved")
    load.finish()
    assert cluster.reeladm("show")["waiting_bytes"] > 0

    # Both controllers lose their LUN.
    stop(cluster, "ws1", "ws2", "mdc1", "mdc2")
    served = restore(cluster, "--metadata", os.path.join(cluster.dir, "luns", "meta1.img"))
    assert served.returncode == 1 and "is there" in served.stderr, served.stderr
    image = lose_metadata(cluster)

    damaged = os.path.join(cluster.scratch, "damaged.dump")
    whole = read(dump_of(cluster))
    before = cluster.lun_digest("data1", "data2", "meta1")
    for bytes_ in (whole[:-1], whole[:len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1:]):
        with open(damaged, "wb") as file:
            file.write(bytes_)
        refused = cluster.tool("mkfs.reelfs", "--restore", damaged, "--luns", cluster.luns(),
                               "--metadata", image)
        assert refused.returncode == 1 and "damaged" in refused.stderr, refused.stderr
    looked = restore(cluster, "--metadata", image, "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert cluster.lun_digest("data1", "data2", "meta1") == before, "nothing was written"

    restored = restore(cluster, "--metadata", image, "--json")
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["dump"] == taken["dump"]
    checked = cluster.tool("fsck.reelfs", "reel", "--luns", cluster.luns())
    assert checked.returncode == 0, checked.stdout + checked.stderr

    cluster.up()
    for name, data in kept.items():
        for mount in (here, there):
            assert read(f"{mount}/{name}") == data, name
    assert read(f"{there}/folder/inside") == content(999)
    assert os.readlink(f"{there}/link") == "folder/inside"
    assert os.stat(f"{there}/second-name").st_nlink == 2
    assert os.getxattr(f"{there}/kept001", "user.colour") == b"green"
    assert not os.path.exists(f"{there}/since0")
    for name in os.listdir(f"{there}/load"):
        data = read(f"{there}/load/{name}")
        assert data == data[:8] * (len(data) // 8), "the bytes of one writing"

    # It goes on: what is written now takes none of the files' blocks.
    for number in range(40):
        write(f"{here}/after{number}", content(9000 + number) * 20)
    for name, data in kept.items():
        assert read(f"{there}/{name}") == data, name
    assert cluster.reeladm("show")["dump"] == taken["dump"], "it can be restored once more"
    again = cluster.reeladm("dump", dump_of(cluster))
    assert cluster.reeladm("show")["dump"] == again["dump"]


def test_a_dump_of_before_is_refused(cluster, room):
    write(f"{room[0]}/file", content(1))
    old = os.path.join(cluster.scratch, "old.dump")
    cluster.reeladm("dump", old)
    cluster.reeladm("dump", dump_of(cluster))
    stop(cluster, "ws1", "ws2", "mdc1", "mdc2")
    image = os.path.join(cluster.dir, "luns", "meta1.img")
    os.rename(image, image + ".away")
    new = os.path.join(cluster.scratch, "new.img")
    with open(new, "wb") as file:
        file.truncate(os.path.getsize(image + ".away"))
    refused = cluster.tool("mkfs.reelfs", "--restore", old, "--luns", cluster.luns(), "--metadata",
                           new)
    assert refused.returncode == 1, refused.stdout
    assert "blocks that it names may be another file's by now" in refused.stderr
    os.rename(image + ".away", image)
    cluster.up()
    assert read(f"{room[1]}/file") == content(1)


def test_a_released_dump_is_refused(cluster, room):
    write(f"{room[0]}/file", content(2))
    cluster.reeladm("dump", dump_of(cluster))
    os.unlink(f"{room[0]}/file")
    assert cluster.reeladm("dump")["dump"] is not None
    assert cluster.reeladm("dump", "release")["dump"] is None
    assert cluster.reeladm("show")["dump"] is None
    stop(cluster, "ws1", "ws2", "mdc1", "mdc2")
    image = os.path.join(cluster.dir, "luns", "meta1.img")
    os.rename(image, image + ".away")
    new = os.path.join(cluster.scratch, "new2.img")
    with open(new, "wb") as file:
        file.truncate(os.path.getsize(image + ".away"))
    refused = restore(cluster, "--metadata", new)
    assert refused.returncode == 1 and "names no dump that is valid" in refused.stderr
    os.rename(image + ".away", image)
    cluster.up()


def test_a_restore_that_ends_at_any_write_is_done_again(cluster, room):
    write(f"{room[0]}/file", content(5))
    cluster.reeladm("dump", dump_of(cluster))
    stop(cluster, "ws1", "ws2", "mdc1", "mdc2")
    image, writes, ended = lose_metadata(cluster), 0, []
    command = [os.path.join(FAILING, "mkfs.reelfs"), "--restore", dump_of(cluster), "--luns",
               cluster.luns(), "--metadata", image, "--force", image]  # labelled by the first
    while True:  # over what the one before has left
        done = subprocess.run(command, env={**os.environ, "REEL_LUN_WRITES": str(writes)},
                              capture_output=True, text=True, timeout=100)
        if done.returncode == 0:
            break
        assert done.returncode == ENOUGH_WRITTEN, done.stderr
        ended.append(writes)
        writes = writes + 1 if writes < 4 else writes * 3 // 2
    assert len(ended) > 8, ended
    checked = cluster.tool("fsck.reelfs", "reel", "--luns", cluster.luns())
    assert checked.returncode == 0, checked.stdout + checked.stderr
    cluster.up()
    assert read(f"{room[1]}/file") == content(5)


def test_a_takeover_while_a_dump_is_valid(cluster, room):
    """The other controller holds the dump's blocks, and its space is used when nothing else is."""
    write(f"{room[0]}/file", content(3) * 400)
    taken = cluster.reeladm("dump", dump_of(cluster))
    os.unlink(f"{room[0]}/file")
    cluster.kill(cluster.active())
    write(f"{room[1]}/after", content(4))
    cluster.up()  # as a standby
    shown = cluster.reeladm("show")
    assert shown["dump"] == taken["dump"]
    until(lambda: cluster.reeladm("show")["waiting_bytes"] > 60 * MIB)
    free = os.statvfs(cluster.ws1)  # which leaves out what waits
    run("fallocate", "-l", str(free.f_bavail * free.f_frsize + 16 * MIB), f"{room[0]}/all")
    assert cluster.reeladm("show")["dump"] is None, "it is void: its blocks were needed"
    os.unlink(f"{room[0]}/all")
