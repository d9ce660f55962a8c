"""A daemon that exports a mount on a port of loopback, with a configuration of deploy/."""
import os
import re
import signal
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


class Daemon:
    """`inside`: what a command begins with that is to run on a host of its own."""

    def __init__(self, directory, inside=()):
        os.makedirs(directory)
        self.directory, self.inside = directory, list(inside)
        self._out = os.path.join(directory, "out")
        self._command = self._daemon = None

    def start(self, *command):
        """The command of before, if none is given; until it is at work."""
        self._command = command or self._command
        with open(self._out, "ab") as out:
            self._daemon = subprocess.Popen([*self.inside, *self._command], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        until(self.works)

    def works(self):
        with open(self._out, encoding="utf-8") as out:
            assert self._daemon.poll() is None, out.read()
        return True

    def end(self, number=signal.SIGTERM):
        if self._daemon is not None:
            self._daemon.send_signal(number)
            self._daemon.wait(60)


class Gateway(Daemon):
    def __init__(self, directory, inside=()):
        super().__init__(directory, inside)
        self.port = free_port()

    def works(self):
        probe = [*self.inside, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{self.port}"]
        return super().works() and subprocess.run(probe, stderr=subprocess.DEVNULL,
                                                  check=False).returncode == 0
