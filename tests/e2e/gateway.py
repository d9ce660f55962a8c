"""A daemon that exports a mount on a port of loopback, with a configuration of deploy/."""
import os
import re
import signal
import socket
import subprocess

from places import free_port

from cluster import TOP, until


def configured(example, lines):
    """The text of an example, with lines of it replaced: {the old one: the new one}."""
    with open(os.path.join(TOP, "deploy", example), encoding="utf-8") as file:
        text = file.read()
    for old, new in lines.items():
        text, found = re.subn(rf"(?m)^( *){re.escape(old)}$", lambda line: line[1] + new, text)
        assert found == 1, f"deploy/{example} has {found} lines {old!r}"
    return text


class Gateway:
    def __init__(self, directory):
        os.makedirs(directory)
        self.directory, self.port = directory, free_port()
        self._out = os.path.join(directory, "out")
        self._daemon = None

    def start(self, *command):
        with open(self._out, "ab") as out:
            self._daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, start_new_session=True)
        until(self.listens)

    def listens(self):
        with open(self._out, encoding="utf-8") as out:
            assert self._daemon.poll() is None, out.read()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self, number=signal.SIGTERM):
        if self._daemon is not None:
            self._daemon.send_signal(number)
            self._daemon.wait(60)
