"""A Samba gateway of one mount: smbd with deploy/samba/smb.conf, and clients that talk to it."""
import os
import re
import subprocess

from impacket import smb3structs as smb2
from impacket.smbconnection import SMBConnection

from cluster import run
from gateway import Gateway, configured

ACCOUNT, PASSWORD = "nobody", "secret"
SID = "S-1-5-21-1-2-3"  # of all gateways, as the example says
LOCK_NOT_GRANTED = 0xC0000055
SECONDS = 120  # for an answer: a busy host's first one takes longer than smbclient would wait


class SambaGateway(Gateway):
    def __init__(self, directory, path, lines=(), inside=()):
        """`lines`: of the example, each with what stands there instead."""
        super().__init__(directory, inside)
        self.path = path
        self.conf = os.path.join(directory, "smb.conf")
        own = [f"smb ports = {self.port}", f"log file = {directory}/log"]
        if not inside:
            own += ["interfaces = 127.0.0.1", "bind interfaces only = yes"]
        for name in ("private dir", "lock directory", "state directory", "cache directory",
                     "pid directory", "ncalrpc dir"):
            own.append(f"{name} = {directory}/{name.split()[0]}")
            os.mkdir(f"{directory}/{name.split()[0]}")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(configured("samba/smb.conf", {
                "[global]": "\n  ".join(["[global]", *own]),
                "path = /mnt/reel": f"path = {path}", **dict(lines)}))
        run("net", "-s", self.conf, "setlocalsid", SID)
        subprocess.run(["pdbedit", "-s", self.conf, "-a", "-u", ACCOUNT, "-t"], check=True,
                       input=f"{PASSWORD}\n{PASSWORD}\n", text=True, capture_output=True)
        self.start("smbd", "--foreground", "--no-process-group", "-s", self.conf)

    def does(self, commands, address="127.0.0.1", inside=()):
        """What smbclient says to a line of its commands, when it is asked for by that address."""
        return run(*inside, "smbclient", "-t", str(SECONDS), "-s", self.conf, "-p", str(self.port),
                   f"//{address}/reel", "-U", f"{ACCOUNT}%{PASSWORD}", "-c", commands)

    def verdict_of(self, *suites):
        """How many tests of smbtorture pass, and the names of those that do not."""
        done = subprocess.run(
            ["smbtorture", "-s", self.conf, "-p", str(self.port), "//127.0.0.1/reel",
             f"-U{ACCOUNT}%{PASSWORD}", *suites],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
        passed = re.findall(r"^success: ", done.stdout, re.MULTILINE)
        failed = re.findall(r"^(?:failure|error): (.*?)(?: \[)?$", done.stdout, re.MULTILINE)
        return len(passed), set(failed)


class OpenFile:
    """A file that a client of a gateway has open."""

    def __init__(self, gateway, name):
        self._connection = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=gateway.port,
                                         timeout=SECONDS)
        self._connection.login(ACCOUNT, PASSWORD)
        self._server = self._connection.getSMBServer()
        self._tree = self._connection.connectTree("reel")
        self._file = self._connection.createFile(
            self._tree, name, creationDisposition=smb2.FILE_OPEN_IF)

    def read(self, offset, length):
        return self._server.read(self._tree, self._file, offset, length)

    def write(self, offset, data):
        self._server.write(self._tree, self._file, data, offset, len(data))

    def _asks(self, offset, length, flags):
        element = smb2.SMB2_LOCK_ELEMENT()
        element["Offset"], element["Length"], element["Flags"] = offset, length, flags
        request = smb2.SMB2Lock()
        request["FileID"], request["LockCount"], request["LockSequence"] = self._file, 1, 0
        request["Locks"] = element.getData()
        packet = self._server.SMB_PACKET()
        packet["Command"], packet["TreeID"], packet["Data"] = smb2.SMB2_LOCK, self._tree, request
        return self._server.recvSMB(self._server.sendSMB(packet))

    def lock(self, offset, length):
        """False: somebody else has it."""
        answer = self._asks(offset, length, smb2.SMB2_LOCKFLAG_EXCLUSIVE_LOCK |
                            smb2.SMB2_LOCKFLAG_FAIL_IMMEDIATELY)
        if answer["Status"] == LOCK_NOT_GRANTED:
            return False
        assert answer.isValidAnswer(0)
        return True

    def unlock(self, offset, length):
        assert self._asks(offset, length, smb2.SMB2_LOCKFLAG_UNLOCK).isValidAnswer(0)

    def close(self):
        self._connection.closeFile(self._tree, self._file)
        self._connection.close()
