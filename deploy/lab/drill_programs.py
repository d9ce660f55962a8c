"""A drill's programs, each beside the mount of its client: here, or on a machine of its own.

Where that is, the client knows (`python`, `give_programs`). Each wait for one of them is bounded.
"""
import contextlib
import json
import os
import select
import subprocess
import time

from drill_verdict import FRAMED, late, longest_pause_ms
from process import LabError

LOAD, LOOK, DATABASE = "drill_load.py", "drill_look.py", "drill_database.py"
LOOK_SECONDS = 120
STOP_SECONDS = 60
PROGRAMS = [os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
            for name in (LOAD, LOOK, DATABASE)]


def give_programs(clients):
    for client in clients:
        client.give_programs(PROGRAMS)


def look(client, *words, seconds=None):
    """What drill_look.py says there."""
    seconds = seconds or LOOK_SECONDS * client.cluster.patience
    words, said = [str(word) for word in words], f"{client.name}: {words[0]} {words[1]}"
    try:
        done = subprocess.run(client.python(LOOK, *words), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise LabError(f"{said}: no answer within {seconds:.1f} s") from None
    if done.returncode != 0:
        raise LabError(f"{said}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


class Unsynced:
    """A file that a client keeps open, with bytes that it has synced, and later others."""

    def __init__(self, client, path):
        self.client, self.path = client, path
        self.process = subprocess.Popen(client.python(LOOK, "unsynced", path), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        try:
            self.answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def step(self, word):
        """`change` or `sync`; the error's number, or None."""
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        return self.answer()

    def answer(self):
        seconds = LOOK_SECONDS * self.client.cluster.patience
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise LabError(f"{self.client.name}: {self.path}: no answer within {seconds} s")
        line = self.process.stdout.readline()
        if not line:
            raise LabError(f"{self.client.name}: {self.path}: its program has ended: see above")
        return json.loads(line)

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=STOP_SECONDS)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Load:
    """One program of drill_load.py, and what it has told so far."""

    def __init__(self, scratch, client, what, path, *more):
        self.what, self.host, self.path, self.more = what, client.name, path, more
        self.name = f"{self.host} {what}"
        self.stop_seconds = STOP_SECONDS * client.cluster.patience
        self.stopped = None  # when it was told to end
        self._lines, self._read_bytes = [], 0
        self.out = os.path.join(scratch, f"{len(os.listdir(scratch))} {self.name}")
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(client.python(LOAD, what, path, *map(str, more)),
                                            stdout=out, stdin=subprocess.PIPE)

    def lines(self):
        """A line that it is still writing is none yet."""
        with open(self.out, "rb") as told:
            told.seek(self._read_bytes)
            news = told.read()
        whole = news[:news.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        self._lines += map(json.loads, whole.splitlines())
        return self._lines

    def at_work(self):
        if self.process.poll() is not None:
            raise LabError(f"the {self.what} program on {self.host} has ended: see above")
        return len(self.lines()) > 3

    def stop(self):
        self.stopped = time.time()
        self.process.stdin.close()
        try:
            self.process.wait(timeout=self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise LabError(f"the {self.what} program hangs in {self.path}")

    def lose(self):
        """Its host has died, or lost its session: it is told to end, and not waited for."""
        self.process.stdin.close()

    def end(self, seconds=0):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=seconds)
        self.process.kill()
        self.process.wait()

    def result(self):
        lines = self.lines()
        return {"program": self.name, "what": self.what, "operations": len(lines),
                "errors": [line["error"] for line in lines if line["error"]],
                "longest_pause_ms": longest_pause_ms(lines),
                "late": late(lines, self.stopped if self.what in FRAMED else None)}
