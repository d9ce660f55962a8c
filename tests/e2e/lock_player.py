"""A process that locks as it is told: one JSON command a line, one JSON answer each.

  ["open", NAME, PATH]  ["close", NAME]  ["dup", NAME, NEW]
  ["lock", NAME, KIND, TYPE, FIRST, LENGTH, WAIT]   KIND: posix, ofd, flock; TYPE: read, write, none
  ["test", NAME, KIND, TYPE, FIRST, LENGTH]         what is in the way, or null
The answer is null, a value, or {"errno": NAME}. SIGALRM interrupts a wait.
"""
import errno
import fcntl
import json
import os
import signal
import struct
import sys

TYPES = {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
FLOCKS = {"read": fcntl.LOCK_SH, "write": fcntl.LOCK_EX, "none": fcntl.LOCK_UN}
LAYOUT = "hhqqi4x"
SET = {("posix", False): fcntl.F_SETLK, ("posix", True): fcntl.F_SETLKW,
       ("ofd", False): fcntl.F_OFD_SETLK, ("ofd", True): fcntl.F_OFD_SETLKW}
GET = {"posix": fcntl.F_GETLK, "ofd": fcntl.F_OFD_GETLK}
files = {}


def interrupted(*_):
    raise InterruptedError(errno.EINTR, "a signal")  # else Python waits on


def lock(name, kind, type_name, first, length, wait):
    if kind == "flock":
        return fcntl.flock(files[name], FLOCKS[type_name] | (0 if wait else fcntl.LOCK_NB))
    wanted = struct.pack(LAYOUT, TYPES[type_name], os.SEEK_SET, first, length, 0)
    fcntl.fcntl(files[name], SET[kind, wait], wanted)


def test(name, kind, type_name, first, length):
    wanted = struct.pack(LAYOUT, TYPES[type_name], os.SEEK_SET, first, length, 0)
    found = struct.unpack(LAYOUT, fcntl.fcntl(files[name], GET[kind], wanted))
    if found[0] == fcntl.F_UNLCK:
        return None
    return [next(key for key, value in TYPES.items() if value == found[0]), found[2], found[3]]


def play(verb, name, *rest):
    if verb == "open":
        files[name] = os.open(rest[0], os.O_RDWR | os.O_CREAT, 0o644)
    elif verb == "dup":
        files[rest[0]] = os.dup(files[name])
    elif verb == "close":
        os.close(files.pop(name))
    else:
        return {"lock": lock, "test": test}[verb](name, *rest)
    return None


signal.signal(signal.SIGALRM, interrupted)
for line in sys.stdin:
    try:
        answer = play(*json.loads(line))
    except OSError as error:
        answer = {"errno": errno.errorcode[error.errno]}
    print(json.dumps(answer), flush=True)
