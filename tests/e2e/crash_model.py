"""What a directory must hold after a crash, by the record that its worker kept.

A worker writes a line to its record before each operation and one after it. An operation with both
lines was acknowledged; at most the last one has no end, and may have happened or not. Files consist
of CELL-byte cells, each of which names its file, the write that put it there and its place; so a
byte that was never written here shows at once.
"""
import json
import os
import struct

CELL = 64
_HEAD = struct.Struct("<IIQ")  # file, write, cell number
_FILLER = bytes(range(160, 160 + CELL - _HEAD.size))


def pattern(file_id, write, first_cell, cells):
    return b"".join(_HEAD.pack(file_id, write, first_cell + i) + _FILLER for i in range(cells))


class File:
    """One inode: what is synced, and what has been done to it since."""

    def __init__(self, file_id):
        self.id = file_id
        self.cells = []    # the write that each cell of the synced content is of; 0 for a hole
        self.pending = []  # ("write", first, cells, write) and ("truncate", cells) since then

    def latest(self):
        """The cells as a reader sees them while nothing crashes."""
        cells = list(self.cells)
        for change in self.pending:
            _apply(cells, change)
        return cells

    def sync(self):
        self.cells, self.pending = self.latest(), []

    def allowed(self, unfinished):
        """(sets of writes by cell, sizes) that may be found after a crash of the writing host;
        `unfinished` is a change that was not acknowledged, or None."""
        cells = [{write} for write in self.cells]
        sizes = {len(cells)}
        for change in self.pending + ([unfinished] if unfinished else []):
            maybe = change is unfinished
            if change[0] == "truncate":
                size = change[1]
                for at in range(size, len(cells)):
                    cells[at] = cells[at] | {0} if maybe else {0}
                if len(cells) < size:
                    cells += [{0} for _ in range(size - len(cells))]
                sizes = sizes | {size} if maybe else {size}
            else:
                first, count, write = change[1:]
                if len(cells) < first + count:
                    cells += [{0} for _ in range(first + count - len(cells))]
                for at in range(first, first + count):
                    cells[at] = cells[at] | {write}
                sizes |= {max(size, first + count) for size in sizes}
        return cells, sizes


def _apply(cells, change):
    if change[0] == "truncate":
        size = change[1]
        del cells[size:]
        cells += [0] * (size - len(cells))
    else:
        first, count, write = change[1:]
        cells += [0] * (first + count - len(cells))
        cells[first:first + count] = [write] * count


class Model:
    """One worker's names and files, as far as its operations were acknowledged."""

    def __init__(self):
        self.names = {}  # name → File
        self.open = {}   # handle → File
        self.earlier = []  # names as they were since the last sync, the oldest first

    def apply(self, op):
        """`op` was acknowledged."""
        kind, *rest = op
        if kind in ("create", "rename", "link", "unlink"):
            self.earlier.append(dict(self.names))
        if kind == "create":
            name, handle, file_id = rest
            self.names[name] = self.open[handle] = File(file_id)
        elif kind == "open":
            name, handle = rest
            self.open[handle] = self.names[name]
        elif kind == "close":
            del self.open[rest[0]]
        elif kind == "write":  # handle, first cell, cells, write, synced
            handle, first, count, write, synced = rest
            self.open[handle].pending.append(("write", first, count, write))
            if synced:
                self._sync(handle)
        elif kind == "truncate":
            self.open[rest[0]].pending.append(("truncate", rest[1]))
        elif kind == "fsync":
            self._sync(rest[0])
        else:
            self.names = names_after(self.names, op)

    def _sync(self, handle):
        self.open[handle].sync()
        self.earlier = []


def names_after(names, op):
    kind, *rest = op
    names = dict(names)
    if kind == "rename":
        names[rest[1]] = names.pop(rest[0])
    elif kind == "link":
        names[rest[1]] = names[rest[0]]
    elif kind == "unlink":
        del names[rest[0]]
    elif kind == "create":
        names[rest[0]] = File(rest[2])
    return names


def read_record(path):
    """(model, the operation that has no end or None, acknowledged operations, error or None)"""
    model, current, count, error = Model(), None, 0, None
    with open(path) as record:
        for line in record:
            if not line.endswith("\n"):
                break  # the worker was killed while it wrote it
            entry = json.loads(line)
            if entry[0] == "begin":
                current = entry[1]
            elif entry[0] == "end":
                model.apply(current)
                current = None
                count += 1
            else:
                error = entry[1]
    return model, current, count, error


class Wrong(AssertionError):
    pass


def verify(directory, prefix, model, unfinished, crashed, alone=True):
    """Raises Wrong when the names that begin with `prefix`, or their files, are not what the record
    allows. `crashed`: the writing host died, so what was not synced of files may be lost; not
    `alone`: the controller did, too, and the last names may be lost with both."""
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                found[entry.name] = entry.stat(follow_symlinks=False)
    names = _names_found(directory, found, model, unfinished, crashed and not alone)
    _verify_files(directory, names, model, unfinished, crashed)


def _names_found(directory, found, model, unfinished, lost):
    """The names as they were at some moment, the latest that it may be. (After a link and its
    removal the same names may be other files'.) `lost`: the last ones may be."""
    moments = [model.names, *(reversed(model.earlier) if lost else [])]
    if unfinished:
        moments.insert(0, names_after(model.names, unfinished))
    of_these_names = [names for names in moments if names.keys() == found.keys()]
    if not of_these_names:
        names = model.names
        raise Wrong(f"{directory}: lost {sorted(names.keys() - found.keys())}, unexpected "
                    f"{sorted(found.keys() - names.keys())}; unfinished: {unfinished}")
    wrong = None
    for names in of_these_names:
        links = {}
        for name, file in names.items():
            links.setdefault(file.id, []).append(name)
        torn = [group for group in links.values()
                if len({found[name].st_ino for name in group}) != 1
                or found[group[0]].st_nlink != len(group)]
        if not torn:
            return names
        wrong = wrong or torn[0]
    raise Wrong(f"{directory}: {wrong} should be the {len(wrong)} names of one file")


def _verify_files(directory, names, model, unfinished, crashed):
    by_id = {file.id: (name, file) for name, file in names.items()}
    for name, file in by_id.values():
        change = None
        if unfinished and unfinished[0] in ("write", "truncate") \
                and model.open[unfinished[1]] is file:
            change = ("truncate", unfinished[2]) if unfinished[0] == "truncate" \
                else ("write", *unfinished[2:5])
        _verify_file(os.path.join(directory, name), file, change, crashed)


def _verify_file(path, file, unfinished, crashed):
    with open(path, "rb") as opened:
        content = opened.read()
    if crashed or unfinished:
        cells, sizes = file.allowed(unfinished)
    else:
        latest = file.latest()
        cells, sizes = [{write} for write in latest], {len(latest)}
    if len(content) % CELL != 0 or len(content) // CELL not in sizes:
        raise Wrong(f"{path}: {len(content)} bytes; allowed cells of {CELL}: {sorted(sizes)[:20]}, "
                    f"since the last sync: {file.pending}, unfinished: {unfinished}")
    for at in range(len(content) // CELL):
        cell = content[at * CELL:(at + 1) * CELL]
        head = _HEAD.unpack(cell[:_HEAD.size])
        write = 0 if not any(cell) else head[1]
        genuine = write == 0 or (head[0] == file.id and head[2] == at
                                 and cell[_HEAD.size:] == _FILLER)
        if not genuine or write not in cells[at]:
            raise Wrong(f"{path}: cell {at} is {'of write' if genuine else 'FOREIGN:'} "
                        f"{write if genuine else cell.hex()}; allowed: {sorted(cells[at])}; "
                        f"file {file.id}, since the last sync: {file.pending}, "
                        f"unfinished: {unfinished}")
