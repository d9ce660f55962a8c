#!/usr/bin/env python3
"""A stream of the chaos test: large writes to one file after the other in DIRECTORY until stdin
ends, synced now and then; each step is noted in RECORD, which lies outside the mount.

  chaos_stream.py DIRECTORY RECORD NAME SEED

Ends with 0 when it was told to stop; with 3 when an operation failed, which is in the record.
"""
import json
import os
import select
import sys

from crash_model import CELL, Wrong, pattern

PIECE = 1 << 20
PIECES = 32  # of a file
SYNC_EVERY = 8
PAUSE_SECONDS = 0.05


def piece(seed, file, number):
    """Other bytes in each file of each seed."""
    cells = PIECE // CELL
    return pattern((seed * 1000 + file) % (1 << 32), number + 1, number * cells, cells)


def ended():
    return bool(select.select([sys.stdin], [], [], PAUSE_SECONDS)[0])


def write(directory, name, seed, note):
    for file in range(1 << 20):
        path = os.path.join(directory, f"{name}{file}")
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        note("file", file)
        for number in range(PIECES):
            if ended():
                os.close(stream)
                return
            if os.write(stream, piece(seed, file, number)) != PIECE:
                raise OSError("a short write")
            note("wrote", number + 1)
            if (number + 1) % SYNC_EVERY == 0:
                os.fsync(stream)
                note("synced", number + 1)
        os.close(stream)
        os.unlink(path)


def main():
    directory, record, name, seed = sys.argv[1:]
    record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(*entry):
        os.write(record, (json.dumps(entry) + "\n").encode())
    print("ready", flush=True)
    try:
        write(directory, name, int(seed), note)
    except OSError as error:
        note("error", str(error))
        return 3
    return 0


def read_record(path):
    """(the last file or None, pieces written, pieces synced, error or None)"""
    state = {"file": None, "wrote": 0, "synced": 0, "error": None}
    with open(path) as record:
        for line in record:
            if not line.endswith("\n"):
                break  # it was killed while it wrote it
            kind, value = json.loads(line)
            if kind == "file":
                state.update(wrote=0, synced=0)
            state[kind] = value
    return state["file"], state["wrote"], state["synced"], state["error"]


def _is_piece_or_nothing(found, wanted):
    return all(found[at:at + CELL] in (wanted[at:at + CELL], bytes(CELL))
               for at in range(0, len(found), CELL))


def verify(directory, name, seed, record, lost):
    """Raises Wrong when the last file does not hold what the record says. `lost`: its host was, so
    what was not synced may be missing; it is never anything else."""
    file, wrote, synced, _ = read_record(record)
    path = os.path.join(directory, f"{name}{file}")
    must = synced if lost else wrote
    gone = not os.path.exists(path)
    if file is None or (gone and (wrote == PIECES or (lost and must == 0))):
        return  # not yet there, or removed
    with open(path, "rb") as stream:
        for number in range(PIECES):
            found, wanted = stream.read(PIECE), piece(seed, file, number)
            if number < must and found != wanted:
                raise Wrong(f"{path}: piece {number} of {must} is not what was written")
            if not _is_piece_or_nothing(found, wanted):
                raise Wrong(f"{path}: piece {number} holds bytes that were never written to it")


if __name__ == "__main__":
    sys.exit(main())
