#!/usr/bin/env python3
"""What a drill does and sees on a mount besides its load: once, beside the mount, in one answer.

  drill_look.py room DIR               makes it, with a file to lock
  drill_look.py space DIR              free bytes of the file system
  drill_look.py rate FILE BYTES TRIES  how many bytes a second are written to it, in each try
  drill_look.py list DIR               the names in it
  drill_look.py text FILE              what is in it
  drill_look.py held FILE FIRST        whether somebody else holds the lock of 100 bytes
  drill_look.py rows FILE              what is in a database
  drill_look.py still DIR BYTES        writes files of mixed sizes there, of so many bytes together
  drill_look.py pieces DIR COUNT BYTES writes files there that lie in many pieces
  drill_look.py sums DIR               a checksum of each file in it, as it is on the LUNs
  drill_look.py remove PATH            a file, or a directory with all that is in it
  drill_look.py unsynced FILE          a file with bytes that are synced, and later with others that
                                       are not: `change` and `sync` on standard input

Prints its answer as a line of JSON (unsynced: one at first and one for each step, the number of its
error or null), or says on standard error why there is none.
"""
import errno
import fcntl
import hashlib
import json
import mmap
import os
import random
import shutil
import sys
import time

from drill_load import LOCK_BYTES

LOCKED = "locked"
PIECE_BYTES = 4 << 20
UNSYNCED_BYTES = 4096
SYNCED, CHANGED = b"a", b"b"
# Of still files; and what a file in pieces is written in, in no order.
STILL_SIZES = (1, 4097, 65_536, (1 << 20) + 13, 5_000_000, 20_000_000, 64 << 20)
PART_BYTES = 128 << 10


def room(directory):
    os.mkdir(directory)
    with open(os.path.join(directory, LOCKED), "wb"):
        pass


def space(directory):
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def rate(path, size, tries):
    return [_rate(path, int(size)) for _ in range(int(tries))]


def _rate(path, size):
    piece = mmap.mmap(-1, PIECE_BYTES)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    try:
        began = time.monotonic()
        for _ in range(size // PIECE_BYTES):
            os.write(fd, piece)
        os.fsync(fd)
        return size / (time.monotonic() - began)
    finally:
        os.close(fd)
        os.unlink(path)


def text(path):
    with open(path, errors="backslashreplace") as file:
        return file.read()


def held(path, first):
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCK_BYTES, int(first))
            return False
        except BlockingIOError:
            return True


def rows(path):
    from drill_database import changes_in  # a machine's Python may have no SQLite
    return changes_in(path)


def still(directory, size):
    """In directories of one file of each size."""
    left, number = int(size), 0
    while left > 0:
        size = min(STILL_SIZES[number % len(STILL_SIZES)], left)
        here = os.path.join(directory, str(number // len(STILL_SIZES)))
        os.makedirs(here, exist_ok=True)
        with open(os.path.join(here, f"file{number}"), "xb", buffering=0) as file:
            file.write(random.Random(number).randbytes(size))
            os.fsync(file.fileno())
        left, number = left - size, number + 1


def pieces(directory, count, size):
    """Each is synced in parts, one here and one there, so that they are given blocks in turn."""
    os.makedirs(directory)
    for number in range(int(count)):
        places = list(range(0, int(size), PART_BYTES))
        random.Random(number).shuffle(places)
        with open(os.path.join(directory, f"file{number}"), "xb", buffering=0) as file:
            for place in places:
                os.pwrite(file.fileno(), random.randbytes(PART_BYTES), place)
                os.fsync(file.fileno())


def sums(directory):
    return {os.path.relpath(os.path.join(here, name), directory): _sum(os.path.join(here, name))
            for here, _, names in os.walk(directory, onerror=_refuse) for name in names}


def _refuse(problem):
    raise problem


def _sum(path):
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha1").hexdigest()


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def unsynced(path):
    with open(path, "w+b", buffering=0) as file:
        file.write(SYNCED * UNSYNCED_BYTES)
        os.fsync(file.fileno())
        print("null", flush=True)
        steps = {"change": lambda: os.pwrite(file.fileno(), CHANGED, 0),
                 "sync": lambda: os.fsync(file.fileno())}
        for line in sys.stdin:
            error = None
            try:
                steps[line.strip()]()
            except OSError as failure:
                error = failure.errno or errno.EIO
            print(json.dumps(error), flush=True)


LOOKS = {"room": room, "space": space, "rate": rate, "list": os.listdir, "text": text,
         "held": held, "rows": rows, "still": still, "pieces": pieces, "sums": sums,
         "remove": remove}

if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    try:
        if verb == "unsynced":
            unsynced(*rest)
        else:
            print(json.dumps(LOOKS[verb](*rest)))
    except OSError as problem:
        sys.exit(str(problem))
