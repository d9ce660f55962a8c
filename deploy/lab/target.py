"""The SAN of a cluster with iscsi:// LUNs: a tgtd of its own, on 127.0.0.1.

All that tgtd knows it is told anew at each start: one target, with the images as LUNs 1, 2, … Its
control socket lies in the cluster's directory, so that it meets no other tgtd of this machine.
"""
import os
import signal
import subprocess

from hosts import Host
from process import LabError
from spec import installed_program

CONTROL_PORT = 1  # part of the socket's name, no more
COMMAND_SECONDS = 20
MAX_SOCKET_PATH = 100


class Target(Host):
    kind = "target"

    def __init__(self, name, cluster, portal, iqn):
        super().__init__(name, cluster)
        self.portal, self.iqn = portal, iqn
        self.environment = {"TGT_IPC_SOCKET": os.path.join(self.dir, "control")}

    def where(self):
        return self.portal

    def url(self, lun):
        return f"iscsi://{self.portal}/{self.iqn}/{lun}"

    def prepare(self):
        if len(self.environment["TGT_IPC_SOCKET"]) > MAX_SOCKET_PATH:
            raise LabError(f"{self.dir}: too long a path for tgtd's control socket")

    def command(self):
        return [installed_program("tgtd"), "--foreground", "--control-port", str(CONTROL_PORT),
                "--iscsi", f"portal={self.portal}"]

    def start(self):
        if self.running():
            return
        super().start()
        try:
            self._configure()
        except BaseException:
            self.process.kill()
            raise

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
