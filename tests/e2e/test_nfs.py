"""A volume re-exported by NFS: nfs-ganesha with the configuration that deploy/ganesha/ganesha.conf
recommends, on two hosts. (The handles that it stands on: test_posix_more.py.)"""
import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess

import pytest

from cluster import run
from gateway import Gateway, configured

BYTES = os.urandom(5_000_000)
LIBNFS = "libnfs.so.13"
TRY_LOCK, UNLOCK = 1, 2  # nfs4_lock_op of libnfs


class NfsGateway(Gateway):
    def __init__(self, directory, path):
        super().__init__(directory)
        self.path = path
        os.mkdir(f"{directory}/recovery")
        with open(f"{directory}/ganesha.conf", "w", encoding="utf-8") as file:
            file.write(configured("ganesha/ganesha.conf", {
                "NFS_Port = 2049;": f"NFS_Port = {self.port};",
                "Path = /mnt/reel;": f"Path = {path};",
                "# RecoveryRoot = /mnt/reel/.ganesha;": f"RecoveryRoot = {directory}/recovery;",
                "Squash = Root_Squash;": "Squash = No_Root_Squash;",
                "Grace_Period = 30;": "Grace_Period = 1;"}))
        self.serve()

    def serve(self):
        self.start("ganesha.nfsd", "-F", "-f", f"{self.directory}/ganesha.conf", "-L",
                   f"{self.directory}/log", "-p", f"{self.directory}/pid")

    def url(self, path):
        return f"nfs://127.0.0.1/reel/{path}?version=4&nfsport={self.port}"

    def read(self, name):
        return subprocess.check_output(["nfs-cat", self.url(name)], timeout=120)

    @contextlib.contextmanager
    def opened(self, name, flags=os.O_RDWR):
        """A file that a client has open."""
        library, file = ctypes.CDLL(LIBNFS), ctypes.c_void_p()
        library.nfs_init_context.restype = library.nfs_parse_url_dir.restype = ctypes.c_void_p
        nfs = ctypes.c_void_p(library.nfs_init_context())
        assert library.nfs_parse_url_dir(nfs, self.url("").encode())
        assert library.nfs_mount(nfs, b"127.0.0.1", b"/reel") == 0
        assert library.nfs_open2(nfs, f"/{name}".encode(), flags, 0o644,
                                 ctypes.byref(file)) == 0
        yield OpenFile(library, nfs, file)
        library.nfs_close(nfs, file)  # fails after a refused lock, which libnfs does not count
        library.nfs_destroy_context(nfs)


class OpenFile:
    def __init__(self, library, nfs, file):
        self._library, self._nfs, self._file = library, nfs, file

    def write(self, data):
        """From the start. REQUIRES: less than 8 KiB, which is all that libnfs sends by NFSv4."""
        size = ctypes.c_uint64(len(data))
        return self._library.nfs_pwrite(self._nfs, self._file, ctypes.c_uint64(0), size, data)

    def lock(self, length, how=TRY_LOCK):
        return self._library.nfs_lockf(self._nfs, self._file, how, ctypes.c_uint64(length)) == 0


@pytest.fixture
def gateways(cluster, room, request):
    made = []
    for number, mount in enumerate(room):
        directory = os.path.join(cluster.scratch, f"{request.node.name}-{number}")
        made.append(NfsGateway(directory, mount))
    yield made
    for gateway in made:
        gateway.end(signal.SIGKILL)


def test_two_gateways_export_one_volume(room, gateways):
    first, second = gateways
    with first.opened("made", os.O_CREAT | os.O_RDWR) as file:
        assert file.write(BYTES[:1000]) == 1000
    assert second.read("made") == BYTES[:1000]
    with open(os.path.join(room[1], "made"), "r+b") as file:
        assert file.read() == BYTES[:1000]
        file.write(BYTES)
    assert first.read("made") == BYTES[:1000] + BYTES
    os.rename(os.path.join(room[0], "made"), os.path.join(room[0], "renamed"))
    assert "renamed" in run("nfs-ls", second.url("")) and "made" not in run("nfs-ls", first.url(""))


def test_locks_are_those_of_the_cluster(room, gateways):
    first, second = gateways
    with open(os.path.join(room[0], "file"), "wb") as file:
        file.write(b"12345678")
    with first.opened("file") as one, second.opened("file") as other, \
            open(os.path.join(room[1], "file"), "r+b") as native:
        assert one.lock(4) and not other.lock(4)
        with pytest.raises(OSError):
            fcntl.lockf(native, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
        assert one.lock(4, UNLOCK)
        fcntl.lockf(native, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
        assert not one.lock(4)


def test_a_gateway_that_died_comes_back(room, gateways):
    first, _ = gateways
    with open(os.path.join(room[1], "file"), "wb") as file:
        file.write(BYTES)
    first.end(signal.SIGKILL)
    first.serve()
    assert first.read("file") == BYTES
