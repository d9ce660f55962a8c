#!/usr/bin/env python3
"""One worker of the crash test: random operations in DIRECTORY until stdin ends, each noted in
RECORD (which lies outside the mount) before it begins and after it was acknowledged.

  crash_load.py DIRECTORY RECORD PREFIX SEED

Ends with 0 when it was told to stop; with 3 when an operation failed, which is in the record.
"""
import json
import os
import random
import select
import sys

from crash_model import CELL, Model, pattern

MAX_CELLS = 1500  # some 96 KiB
MAX_FILES = 24


class Worker:
    def __init__(self, directory, record, prefix, seed):
        self.directory, self.prefix = directory, prefix
        self.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.random = random.Random(seed)
        self.model = Model()
        self.fds = {}
        self.next_id = 0

    def path(self, name):
        return os.path.join(self.directory, name)

    def note(self, *entry):
        os.write(self.record, (json.dumps(entry) + "\n").encode())

    def do(self, op, call):
        self.note("begin", op)
        try:
            result = call()
        except OSError as error:
            self.note("error", f"{op}: {error}")
            raise
        self.note("end")
        self.model.apply(op)
        return result

    def new_name(self):
        self.next_id += 1
        return f"{self.prefix}{self.next_id}"

    def any_name(self):
        return self.random.choice(sorted(self.model.names))

    def any_handle(self):
        return self.random.choice(sorted(self.fds)) if self.fds else None

    # ---- operations

    def create(self):
        if len(self.model.names) >= MAX_FILES:
            return self.unlink()
        name = self.new_name()
        handle = self.next_id
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self.fds[handle] = self.do(["create", name, handle, handle],
                                   lambda: os.open(self.path(name), flags, 0o644))
        if self.random.random() < 0.7:
            self.write(handle)

    def open(self):
        if len(self.fds) > 6:
            return self.close()
        if self.model.names:
            name = self.any_name()
            self.next_id += 1
            self.fds[self.next_id] = self.do(["open", name, self.next_id],
                                             lambda: os.open(self.path(name), os.O_RDWR))

    def close(self):
        handle = self.any_handle()
        if handle is not None:
            fd = self.fds.pop(handle)
            self.do(["close", handle], lambda: os.close(fd))

    def write(self, handle=None):
        handle = handle or self.any_handle()
        if handle is None:
            return
        size = len(self.model.open[handle].latest())
        kind = self.random.random()
        if kind < 0.4:
            first = size  # append
        elif kind < 0.9:
            first = self.random.randrange(size + 1)
        else:
            first = self.random.randrange(MAX_CELLS)
        count = min(self.random.choice((1, 3, 64, 250, 400)), MAX_CELLS - first)
        if count <= 0:
            return self.truncate(handle)
        self.next_id += 1
        write = self.next_id
        data = pattern(self.model.open[handle].id, write, first, count)
        synced = self.random.random() < 0.15
        flags = os.RWF_SYNC if synced else 0

        def call():
            done = os.pwritev(self.fds[handle], [data], first * CELL, flags)
            if done != len(data):
                raise OSError(f"a short write: {done} of {len(data)}")
        self.do(["write", handle, first, count, write, synced], call)

    def append(self):
        """Through a descriptor of its own that has O_APPEND."""
        if not self.model.names:
            return
        name = self.any_name()
        first = len(self.model.names[name].latest())
        count = min(self.random.choice((1, 2, 100)), MAX_CELLS - first)
        if count <= 0:
            return
        self.next_id += 2
        handle, write = self.next_id - 1, self.next_id
        self.fds[handle] = self.do(
            ["open", name, handle],
            lambda: os.open(self.path(name), os.O_WRONLY | os.O_APPEND))
        data = pattern(self.model.names[name].id, write, first, count)
        self.do(["write", handle, first, count, write, False],
                lambda: os.write(self.fds[handle], data))
        fd = self.fds.pop(handle)
        self.do(["close", handle], lambda: os.close(fd))

    def truncate(self, handle=None):
        handle = handle or self.any_handle()
        if handle is not None:
            size = len(self.model.open[handle].latest())
            cells = self.random.randrange(min(size + 20, MAX_CELLS))
            self.do(["truncate", handle, cells],
                    lambda: os.ftruncate(self.fds[handle], cells * CELL))

    def fsync(self):
        handle = self.any_handle()
        if handle is not None:
            sync = self.random.choice((os.fsync, os.fdatasync))
            self.do(["fsync", handle], lambda: sync(self.fds[handle]))

    def rename(self):
        if not self.model.names:
            return
        old = self.any_name()
        new = self.any_name() if self.random.random() < 0.4 else self.new_name()
        if self.model.names.get(new) is not self.model.names[old]:  # else it does nothing
            self.do(["rename", old, new], lambda: os.rename(self.path(old), self.path(new)))

    def link(self):
        if self.model.names and len(self.model.names) < MAX_FILES:
            old, new = self.any_name(), self.new_name()
            self.do(["link", old, new], lambda: os.link(self.path(old), self.path(new)))

    def unlink(self):
        if self.model.names:
            name = self.any_name()
            self.do(["unlink", name], lambda: os.unlink(self.path(name)))

    def check(self):
        """What this very host reads is what was written last."""
        handle = self.any_handle()
        if handle is None:
            return
        file = self.model.open[handle]
        cells = file.latest()
        found = os.pread(self.fds[handle], MAX_CELLS * CELL + 1, 0) \
            if self._readable(handle) else None
        wanted = b"".join(pattern(file.id, write, at, 1) if write else bytes(CELL)
                          for at, write in enumerate(cells))
        if found is not None and found != wanted:
            self.note("error", f"read of handle {handle}: {len(found)} bytes are not the "
                               f"{len(wanted)} that were written")
            sys.exit(3)

    def _readable(self, handle):
        return handle in self.fds

    def run(self):
        weights = {self.create: 6, self.open: 3, self.close: 3, self.write: 14, self.append: 4,
                   self.truncate: 3, self.fsync: 6, self.rename: 5, self.link: 2, self.unlink: 4,
                   self.check: 4}
        operations = list(weights)
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            self.random.choices(operations, weights.values())[0]()


def main():
    directory, record, prefix, seed = sys.argv[1:]
    try:
        Worker(directory, record, prefix, int(seed)).run()
    except OSError:
        os._exit(3)  # without closing what lies on a dead mount
    os._exit(0)


if __name__ == "__main__":
    main()
