"""A volume re-exported by NFS: nfs-ganesha with the configuration that deploy/ganesha/ganesha.conf
recommends, on two hosts, and handles of files, which it stands on."""
import ctypes
import errno
import os
import socket
import subprocess

import pytest

from cluster import TOP, run, until

EXAMPLE = os.path.join(TOP, "deploy", "ganesha", "ganesha.conf")
BYTES = os.urandom(5_000_000)
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


class Handle(ctypes.Structure):
    """struct file_handle: name_to_handle_at(2)"""
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]

    @classmethod
    def of(cls, path):
        handle, mount = cls(bytes=128), ctypes.c_int()
        if LIBC.name_to_handle_at(AT_FDCWD, path.encode(), ctypes.byref(handle),
                                  ctypes.byref(mount), 0) != 0:
            raise OSError(ctypes.get_errno(), path)
        return handle

    def open(self, mount):
        directory = os.open(mount, os.O_RDONLY)
        fd = LIBC.open_by_handle_at(directory, ctypes.byref(self), os.O_RDONLY)
        os.close(directory)
        if fd < 0:
            raise OSError(ctypes.get_errno(), mount)
        return os.fdopen(fd, "rb")


class Gateway:
    def __init__(self, directory, path):
        os.makedirs(f"{directory}/recovery")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        changed = {"NFS_Port = 2049": f"NFS_Port = {self.port}",
                   "Path = /mnt/reel": f"Path = {path}",
                   "# RecoveryRoot = /mnt/reel/.ganesha": f"RecoveryRoot = {directory}/recovery",
                   "Root_Squash": "No_Root_Squash", "Grace_Period = 30": "Grace_Period = 1"}
        with open(EXAMPLE, encoding="utf-8") as example:
            text = example.read()
        for old, new in changed.items():
            assert old in text, f"{EXAMPLE} has no {old!r}"
            text = text.replace(old, new)
        self.conf, self.log = f"{directory}/ganesha.conf", f"{directory}/log"
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(text)
        self.directory = directory
        self.start()

    def start(self):
        self._daemon = subprocess.Popen(
            ["ganesha.nfsd", "-F", "-f", self.conf, "-L", self.log, "-p", f"{self.directory}/pid"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        until(self.listens)

    def listens(self):
        assert self._daemon.poll() is None, open(self.log, encoding="utf-8").read()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self):
        self._daemon.kill()
        self._daemon.wait()

    def url(self, path):
        return f"nfs://127.0.0.1/reel/{path}?version=4&nfsport={self.port}"

    def write(self, name, data):
        """By libnfs, which writes less than 8 KiB at a time by NFSv4."""
        library, file = ctypes.CDLL("libnfs.so.13"), ctypes.c_void_p()
        library.nfs_init_context.restype = ctypes.c_void_p
        nfs = ctypes.c_void_p(library.nfs_init_context())
        library.nfs_set_version(nfs, 4)
        library.nfs_parse_url_dir.restype = ctypes.c_void_p
        assert library.nfs_parse_url_dir(nfs, self.url("").encode())
        assert library.nfs_mount(nfs, b"127.0.0.1", b"/reel") == 0
        flags = os.O_CREAT | os.O_WRONLY
        assert library.nfs_open2(nfs, f"/{name}".encode(), flags, 0o644, ctypes.byref(file)) == 0
        assert library.nfs_pwrite(nfs, file, ctypes.c_uint64(0), ctypes.c_uint64(len(data)),
                                  data) == len(data)
        assert library.nfs_close(nfs, file) == 0
        library.nfs_destroy_context(nfs)


@pytest.fixture
def gateways(cluster, room, request):
    made = []
    for number, mount in enumerate(room):
        made.append(Gateway(os.path.join(cluster.scratch, f"{request.node.name}-{number}"), mount))
    yield made
    for gateway in made:
        gateway.end()


def fetched(gateway, name):
    return subprocess.check_output(["nfs-cat", gateway.url(name)], timeout=120)


def test_a_handle_of_one_host_opens_the_file_on_another(cluster, room):
    path = os.path.join(room[0], "file")
    with open(path, "wb") as file:
        file.write(b"bytes")
    handle = Handle.of(path)
    os.rename(path, path + ".renamed")
    with handle.open(cluster.mounts[1]) as file:
        assert file.read() == b"bytes"
    os.unlink(path + ".renamed")
    with open(path, "wb") as file:  # whatever is made now is another file
        file.write(b"other")

    def is_stale():
        try:
            with handle.open(cluster.mounts[1]) as file:
                assert file.read() == b"bytes"  # until the other host has heard of the removal
            return False
        except OSError as error:
            assert error.errno == errno.ESTALE
            return True

    until(is_stale)


def test_two_gateways_export_one_volume(room, gateways):
    first, second = gateways
    first.write("made", BYTES[:1000])
    assert fetched(second, "made") == BYTES[:1000]
    with open(os.path.join(room[1], "made"), "r+b") as file:
        assert file.read() == BYTES[:1000]
        file.write(BYTES)
    assert fetched(first, "made") == BYTES[:1000] + BYTES
    os.rename(os.path.join(room[0], "made"), os.path.join(room[0], "renamed"))
    assert "renamed" in run("nfs-ls", second.url("")) and "made" not in run("nfs-ls", first.url(""))


def test_a_gateway_that_died_comes_back(room, gateways):
    first, _ = gateways
    with open(os.path.join(room[1], "file"), "wb") as file:
        file.write(BYTES)
    first.end()
    first.start()
    assert fetched(first, "file") == BYTES
