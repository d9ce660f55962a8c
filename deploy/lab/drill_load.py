#!/usr/bin/env python3
"""What a drill's programs do, each as a process of its own, until its standard input ends.

  drill_load.py create DIR            creates a file each 10 ms
  drill_load.py storm DIR             makes, renames, links and removes names, and leaves a fifth of
                                      the machine's time to others
  drill_load.py append FILE WHO       appends a line each 20 ms to a file that others append to
  drill_load.py lock FILE FIRST       holds an fcntl lock of 100 bytes, and asks each 100 ms for it
  drill_load.py stream FILE BYTES     appends a frame of so many bytes 24 times a second
  drill_load.py read FILE BYTES WHEN  reads those frames, the first one at the time WHEN
  drill_load.py database FILE         changes some rows each 50 ms, and reads others

Prints a line of JSON for each thing done: when it was due and when it was done (CLOCK_REALTIME),
and the error, if there was one.
"""
import fcntl
import itertools
import json
import os
import select
import struct
import sys
import time

CREATE_SECONDS = 0.010
APPEND_SECONDS = 0.020
CHANGE_SECONDS = 0.050
FRAME_SECONDS = 1 / 24
ASK_SECONDS = 0.1
MISSING_SECONDS = 0.02  # a frame that is not there is looked for again after that
LINE_BYTES = 200
LOCK_BYTES = 100
IDLE_SHARE = 0.2
STORM_NAMES = 50
_NUMBER = struct.Struct("<Q")


class Ended(Exception):
    """Standard input has, within something that takes long."""


def tell(number, due, error, **more):
    print(json.dumps({"n": number, "due": due, "done": time.time(), "error": error, **more}),
          flush=True)


def ended(seconds):
    return bool(select.select([sys.stdin], [], [], max(seconds, 0))[0])


def paced(period, act, first=None, makes_up=True):
    """Calls act(n) at each multiple of the period. One that is late is followed at once; where the
    program makes up for nothing, by a pause."""
    due = time.time() if first is None else first
    for number in range(1 << 30):
        if ended(due - time.time()):
            return
        error = None
        try:
            act(number)
        except OSError as failure:
            error = str(failure)
        except Ended:
            return
        tell(number, due, error)
        due += period
        if not makes_up:
            due = max(due, time.time())


def create(directory):
    os.makedirs(directory, exist_ok=True)

    def act(number):
        os.close(os.open(os.path.join(directory, f"file{number:06}"),
                         os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    paced(CREATE_SECONDS, act, makes_up=False)


# ---- storm


class Pace:
    """A pause between operations with which a fifth of the machine's time is left."""

    def __init__(self):
        self.pause, self.looked, self.before = 0.005, time.monotonic(), self._times()

    @staticmethod
    def _times():
        with open("/proc/stat") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return fields[3] + fields[4], sum(fields)

    def next(self):
        if time.monotonic() - self.looked > 0.3:
            idle, total = self._times()
            share = (idle - self.before[0]) / max(total - self.before[1], 1)
            self.pause *= 1.4 if share < IDLE_SHARE else 1 / 1.4 if share > IDLE_SHARE + 0.1 else 1
            self.pause = min(max(self.pause, 0.0005), 0.2)
            self.looked, self.before = time.monotonic(), (idle, total)
        return self.pause


def storm_ops():
    """Each name is made once, and each step of its life works only after the one before."""
    for i in itertools.count():
        yield ["make", f"a{i}"]
        yield ["rename", f"a{i}", f"b{i}"]
        yield ["link", f"b{i}", f"c{i}"]
        yield ["remove", f"b{i}"]
        yield ["mkdir", f"d{i}"]
        if i >= STORM_NAMES:
            yield ["remove", f"c{i - STORM_NAMES}"]
            yield ["rmdir", f"d{i - STORM_NAMES}"]


CALLS = {"make": lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
         "rename": os.rename, "link": os.link, "remove": os.unlink, "mkdir": os.mkdir,
         "rmdir": os.rmdir}


def storm(directory):
    os.makedirs(directory, exist_ok=True)
    pace = Pace()
    for number, op in enumerate(storm_ops()):
        if ended(pace.next()):
            return
        due, error = time.time(), None
        try:
            CALLS[op[0]](*[os.path.join(directory, name) for name in op[1:]])
        except OSError as failure:
            error = f"{' '.join(op)}: {failure}"
        tell(number, due, error, op=op)


# ---- files


def line_of(who, number):
    return f"{who} {number} ".ljust(LINE_BYTES - 1, ".") + "\n"


def append(path, who):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    paced(APPEND_SECONDS, lambda number: os.write(fd, line_of(who, number).encode()))


def lock(path, first):
    with open(path, "r+b") as file:
        def take(_number):
            # A lock that one has is asked for again by a call that only its owner can make.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCK_BYTES, int(first))
        take(0)
        paced(ASK_SECONDS, take)


class Frame:
    """A frame's bytes, which begin and end with its number: one buffer for all of them, since a new
    one of megabytes costs as much as its copy."""

    def __init__(self, size):
        self.bytes = bytearray(size)
        self.marks = (0, size - _NUMBER.size)

    def number(self, number):
        for mark in self.marks:
            _NUMBER.pack_into(self.bytes, mark, number)
        return self.bytes

    def numbers(self):
        return [_NUMBER.unpack_from(self.bytes, mark)[0] for mark in self.marks]


def stream(path, size):
    size = int(size)
    frame = Frame(size)
    with open(path, "wb", buffering=0) as file:
        def act(number):
            if file.write(frame.number(number)) != size:
                raise OSError("a short write")
        paced(FRAME_SECONDS, act)


def read(path, size, when):
    size = int(size)
    frame = Frame(size)
    with open(path, "rb", buffering=0) as file:
        def act(number):
            while os.preadv(file.fileno(), [frame.bytes], number * size) < size:
                if ended(MISSING_SECONDS):
                    raise Ended
            if frame.numbers() != [number, number]:
                raise OSError(f"frame {number} begins with {frame.numbers()[0]} and ends with "
                              f"{frame.numbers()[1]}")
        paced(FRAME_SECONDS, act, first=float(when))


def database(path):
    from drill_database import Database  # a machine's Python may have no SQLite
    os.makedirs(os.path.dirname(path), exist_ok=True)  # its own: SQLite makes files beside it
    paced(CHANGE_SECONDS, Database(path).change, makes_up=False)


if __name__ == "__main__":
    {"create": create, "storm": storm, "append": append, "lock": lock, "stream": stream,
     "read": read, "database": database}[sys.argv[1]](*sys.argv[2:])
