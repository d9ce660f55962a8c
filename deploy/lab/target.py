"""The SAN of a cluster with iscsi:// LUNs: a tgtd of its own, and what stands before it.

All that tgtd knows it is told anew at each start: one target, with the images as LUNs 1, 2, … Its
control socket lies in the cluster's directory, so that it meets no other tgtd of this machine. With
--lun-delays each LUN has a port of its own before it, where delays.py stands. With --portals the
target is reached by several places, each a host that can be killed, paused and cut off by itself.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys

from hosts import Host
from process import LabError, Process
from spec import installed_program

CONTROL_PORT = 1  # part of the socket's name, no more
COMMAND_SECONDS = 20
CHAP_USER, CHAP_SECRET = "studio", "a-secret-of-the-lab"
DELAYS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delays.py")
MAX_SOCKET_PATH = 100
# It allocates each command's buffer anew: from memory that is there, not from the kernel's.
MALLOC = "glibc.malloc.mmap_threshold=8388608:glibc.malloc.trim_threshold=67108864"


class Target(Host):
    kind = "target"

    def __init__(self, name, cluster, portal, iqn):
        super().__init__(name, cluster)
        self.portal, self.iqn = portal, iqn
        self.delays = Process(f"{name}'s delays", os.path.join(self.dir, "delays.pid"),
                              os.path.join(self.dir, "delays.log"))
        self.delays_path = os.path.join(self.dir, "delays.json")
        self.environment = {"TGT_IPC_SOCKET": os.path.join(self.dir, "control"),
                            "GLIBC_TUNABLES": MALLOC}

    def where(self):
        return self.portal

    def url(self, lun):
        address, port = self.portal.rsplit(":", 1)
        if self.cluster.spec.lun_delays:
            port = int(port) + lun
        portals = [portal.address for portal in self.cluster.portals] or [f"{address}:{port}"]
        user = f"{CHAP_USER}%{CHAP_SECRET}@" if self.cluster.spec.chap else ""
        return f"iscsi://{user}{','.join(portals)}/{self.iqn}/{lun}"

    def delay(self, name, ms):
        """From now on each answer of that LUN comes so much later."""
        if not self.cluster.spec.lun_delays:
            raise LabError("LUNs can be slowed where the cluster was made by lab up --lun-delays")
        names = self.cluster.luns.names()
        if name not in names:
            raise LabError(f"no LUN {name}; there are: {' '.join(names)}")
        delays = {}
        with contextlib.suppress(FileNotFoundError), open(self.delays_path) as file:
            delays = json.load(file)
        delays[str(1 + names.index(name))] = ms
        self._delay(delays)

    def delay_none(self):
        if os.path.exists(self.delays_path):
            self._delay({})

    def _delay(self, delays):
        with open(self.delays_path + ".new", "w") as file:
            json.dump(delays, file)
        os.replace(self.delays_path + ".new", self.delays_path)
        self.delays.signal(signal.SIGHUP)

    def prepare(self):
        if len(self.environment["TGT_IPC_SOCKET"]) > MAX_SOCKET_PATH:
            raise LabError(f"{self.dir}: too long a path for tgtd's control socket")

    def command(self):
        return [installed_program("tgtd"), "--foreground", "--control-port", str(CONTROL_PORT),
                "--iscsi", f"portal={self.portal}"]

    def start(self):
        if not self.running():
            super().start()
            try:
                self._configure()
            except BaseException:
                self.process.kill()
                raise
        if self.cluster.spec.lun_delays and self.delays.pid() is None:
            address, port = self.portal.rsplit(":", 1)
            self.delays.start(
                self.cluster.network.inside(self.name) +
                [sys.executable, "-B", DELAYS, address, self.portal, port,
                 str(len(self.cluster.luns.names())), self.delays_path])

    def _configure(self):
        target = ("--lld", "iscsi", "--mode", "target", "--tid", "1")
        self._admin("--op", "new", "--targetname", self.iqn, *target)
        # Unless told so, tgtd has no digests, and takes writes in pieces of 8 KiB.
        for name, value in (("HeaderDigest", "CRC32C,None"),
                            ("MaxRecvDataSegmentLength", "262144")):
            self._admin("--op", "update", "--name", name, "--value", value, *target)
        for number, name in enumerate(self.cluster.luns.names(), 1):
            self._admin("--lld", "iscsi", "--op", "new", "--mode", "logicalunit", "--tid", "1",
                        "--lun", str(number), "--backing-store", self.cluster.luns.image(name),
                        "--blocksize", "4096", "--bsoflags", "direct")
        if self.cluster.spec.chap:
            account = ("--lld", "iscsi", "--mode", "account", "--user", CHAP_USER)
            self._admin("--op", "new", "--password", CHAP_SECRET, *account)
            self._admin("--op", "bind", "--tid", "1", *account)
        self._admin("--op", "bind", "--initiator-address", "ALL", *target)

    def stop(self):
        """It does not end by SIGTERM while it has LUNs."""
        self.process.signal(signal.SIGCONT)  # a stopped process would answer nothing
        if self.running():
            for words in (("--lld", "iscsi", "--op", "delete", "--force", "--mode", "target",
                           "--tid", "1"), ("--op", "delete", "--mode", "system")):
                try:
                    self._admin(*words)
                except LabError:
                    break
        clean = self.process.wait_gone()
        self.process.kill()
        self.delays.kill()
        return clean

    def _admin(self, *words):
        try:
            done = subprocess.run([installed_program("tgtadm"), "--control-port",
                                   str(CONTROL_PORT), *words], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=COMMAND_SECONDS,
                                  env={**os.environ, **self.environment})
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name}: tgtadm {' '.join(words)}: no answer")
        if done.returncode != 0:
            raise LabError(f"{self.name}: tgtadm {' '.join(words)}: "
                           f"{done.stderr.strip() or done.returncode} (its log: {self.log_path})")


class Portal(Host):
    """One of several ways to the target: it hands on what comes, unless it is dead, stands still or
    is cut off."""
    kind = "portal"

    def __init__(self, name, cluster, address):
        super().__init__(name, cluster)
        self.address = address

    def where(self):
        return self.address

    def command(self):
        address, port = self.address.rsplit(":", 1)
        return [sys.executable, "-B", DELAYS, address, self.cluster.targets[0].portal,
                str(int(port) - 1), "1", os.path.join(self.dir, "no-delays")]

    def stop(self):
        return self.terminate()
