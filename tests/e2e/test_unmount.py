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
        for program, names in (("umount.reelfs", ("umount.fuse", "umount.fuse.reelfs")),
                               ("mount.reelfs", ("mount.reelfs", "mount.fuse.reelfs"))):
            for name in names:
                os.symlink(os.path.join(BIN, program), os.path.join(tools, name))
    made = Namespace(tools)
    yield made
    made.shell.stdin.close()
    made.shell.wait(60)


@pytest.mark.parametrize("command", ("umount {}", "umount -a -t fuse.reelfs"))
def test_umount_waits_for_the_bytes_and_for_a_controller(cluster, room, namespace, command):
    where = cluster.where("mdc1")
    mount = os.path.join(cluster.scratch, "own")
    os.makedirs(mount, exist_ok=True)
    log = f"{mount}.log"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    assert namespace.run(f"{BIN}/mount.reelfs reel {mount} -o mdc={where},"
                         f"luns='{cluster.luns()}',config={cluster.own_config()},log={log}") == 0
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


def shown_options(namespace, directory):
    with open(f"/proc/{namespace.shell.pid}/mountinfo") as table:
        return next(line.split()[5].split(",") for line in table if line.split()[4] == directory)


def test_mount_8_finds_the_program_for_a_mount_and_for_a_remount(cluster, namespace):
    mount = os.path.join(cluster.scratch, "by-mount-8")
    os.makedirs(mount, exist_ok=True)
    options = f"mdc={cluster.hosts()['mdc1']['where']},luns='{cluster.luns()}'," \
              f"config={cluster.own_config()},log={mount}.log"
    assert namespace.run(f"mount -t reelfs reel {mount} -o {options},user=somebody") == 0
    try:
        assert namespace.run(f"mount -o remount,ro {mount}") == 0
        assert "ro" in shown_options(namespace, mount)
        assert namespace.run(f"mount -o remount,rw,strictatime {mount}") == 0
        shown = shown_options(namespace, mount)
        assert "rw" in shown and "relatime" not in shown
        assert namespace.run(f"mount -o remount,cache=page {mount} 2>/dev/null") != 0
    finally:
        assert namespace.run(f"umount {mount}") == 0


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
