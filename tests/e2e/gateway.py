"""A Samba gateway of one mount: smbd with deploy/samba/smb.conf on a port of loopback, and clients
that talk to it."""
import os
import re
import socket
import subprocess

from impacket import smb3structs as smb2
from impacket.smbconnection import SMBConnection

from cluster import TOP, run, until

EXAMPLE = os.path.join(TOP, "deploy", "samba", "smb.conf")
ACCOUNT, PASSWORD = "nobody", "secret"
SID = "S-1-5-21-1-2-3"  # of all gateways, as the example says
LOCK_NOT_GRANTED = 0xC0000055


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configuration(directory, path, port, **changed):
    """The example, with what a daemon beside others needs; NAME=VALUE replaces its lines."""
    with open(EXAMPLE, encoding="utf-8") as example:
        text = example.read()
    for name, value in {"path": path, **changed}.items():
        line = rf"^  {name.replace('_', ' ')} = .*$"
        assert re.search(line, text, re.MULTILINE), f"{EXAMPLE} has no line {line}"
        text = re.sub(line, f"  {name.replace('_', ' ')} = {value}", text, flags=re.MULTILINE)
    own = [f"smb ports = {port}", "interfaces = 127.0.0.1", "bind interfaces only = yes",
           f"log file = {directory}/log"]
    for name in ("private dir", "lock directory", "state directory", "cache directory",
                 "pid directory", "ncalrpc dir"):
        own.append(f"{name} = {directory}/{name.split()[0]}")
        os.makedirs(f"{directory}/{name.split()[0]}", exist_ok=True)
    return text.replace("[global]\n", "[global]\n" + "".join(f"  {line}\n" for line in own))


class Gateway:
    def __init__(self, directory, path, **changed):
        os.makedirs(directory)
        self.port, self.path = free_port(), path
        self.conf = os.path.join(directory, "smb.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(configuration(directory, path, self.port, **changed))
        run("net", "-s", self.conf, "setlocalsid", SID)
        subprocess.run(["pdbedit", "-s", self.conf, "-a", "-u", ACCOUNT, "-t"], check=True,
                       input=f"{PASSWORD}\n{PASSWORD}\n", text=True, capture_output=True)
        self._log = open(os.path.join(directory, "out"), "wb")
        self._daemon = subprocess.Popen(
            ["smbd", "--foreground", "--no-process-group", "-s", self.conf],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True)
        until(self.listens)

    def listens(self):
        assert self._daemon.poll() is None, open(self._log.name, encoding="utf-8").read()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def down(self):
        self._daemon.terminate()  # its children end with it
        self._daemon.wait(60)
        self._log.close()

    def does(self, commands):
        """What smbclient says to a line of its commands."""
        return run("smbclient", "-s", self.conf, "-p", self.port, "//127.0.0.1/reel",
                   "-U", f"{ACCOUNT}%{PASSWORD}", "-c", commands)

    def fails_of(self, suite):
        """Which tests of a suite of smbtorture pass, and which do not."""
        done = subprocess.run(
            ["smbtorture", "-s", self.conf, "-p", str(self.port), "//127.0.0.1/reel",
             f"-U{ACCOUNT}%{PASSWORD}", suite],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
        passed = re.findall(r"^success: (.*)$", done.stdout, re.MULTILINE)
        failed = re.findall(r"^(?:failure|error): (.*?)(?: \[)?$", done.stdout, re.MULTILINE)
        assert passed, done.stdout + done.stderr
        return set(passed), set(failed)


class OpenFile:
    """A file that a client of a gateway has open."""

    def __init__(self, gateway, name):
        self._connection = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=gateway.port)
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
