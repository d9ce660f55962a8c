"""umount(8) with its helper, and what is left of sync(1): they return when all is on the LUNs."""
import contextlib
import os
import select
import subprocess

import pytest

from cluster import BIN

FILES = 67


class Namespace:
    """A shell where /sbin has the helper alone, in a mount namespace of its own."""

    def __init__(self, tools):
        begin = f"mount --bind {tools} /sbin && exec sh"
        self.shell = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sh", "-c", begin],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, command):
        """`finished` says with which code it ends."""
        self.shell.stdin.write(f"{command}\necho ended $?\n")
        self.shell.stdin.flush()

    def finished(self):
        words = self.shell.stdout.readline().split()
        assert words[:1] == ["ended"], words
        return int(words[1])

    def run(self, command):
        self.start(command)
        return self.finished()

    def is_running(self):
        return not select.select([self.shell.stdout], [], [], 0)[0]

    def has_mounted(self, directory):
        with open(f"/proc/{self.shell.pid}/mountinfo") as table:
            return any(line.split()[4] == directory for line in table)


@pytest.fixture
def namespace(cluster):
    tools = os.path.join(cluster.scratch, "tools")
    with contextlib.suppress(FileExistsError):
        os.mkdir(tools)
        for name in ("umount.fuse", "umount.fuse.reelfs"):
            os.symlink(os.path.join(BIN, "umount.reelfs"), os.path.join(tools, name))
    made = Namespace(tools)
    yield made
    made.shell.stdin.close()
    made.shell.wait(60)


@pytest.mark.parametrize("command", ("umount {}", "umount -a -t fuse.reelfs"))
def test_umount_waits_for_the_bytes_and_for_a_controller(cluster, room, namespace, command):
    where = cluster.hosts()["mdc1"]["where"]
    mount = os.path.join(cluster.scratch, "own")
    os.makedirs(mount, exist_ok=True)
    log = f"{mount}.log"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    assert namespace.run(f"{BIN}/mount.reelfs reel {mount} -o mdc={where},"
                         f"luns='{cluster.luns()}',log={log}") == 0
    inside = f"/proc/{namespace.shell.pid}/root{mount}/{os.path.basename(room[0])}/file"
    with open(inside, "wb", buffering=0) as file:
        file.write(b"old" * 1000)
        os.fsync(file.fileno())
        assert namespace.run(f"umount {mount} 2>/dev/null") != 0  # busy, as ever
        cluster.kill("mdc1")
        os.pwrite(file.fileno(), b"new", 0)
    namespace.start(command.format(mount))
    while namespace.has_mounted(mount):
        pass
    assert namespace.is_running()  # nobody can have taken the file's new time
    cluster.start("mdc1")
    assert namespace.finished() == 0
    with open(log) as said:
        assert said.read().rstrip().endswith("done")
    with open(f"{room[1]}/file", "rb") as file:
        assert file.read(6) == b"newold"


def test_sync_of_a_directory_is_one_of_the_mount(cluster, room):
    os.mkdir(f"{room[0]}/elsewhere")
    for number in range(FILES):
        with open(f"{room[0]}/elsewhere/{number}", "wb") as file:
            file.write(b"%d " % number * 1000)
    subprocess.run(["sync", room[0]], check=True)
    cluster.kill("ws1")
    for number in range(FILES):
        with open(f"{room[1]}/elsewhere/{number}", "rb") as file:
            assert file.read() == b"%d " % number * 1000
    cluster.start("ws1")
