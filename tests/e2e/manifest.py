"""Everything about a tree that a copy must keep, in a form that can be compared."""
import hashlib
import os
import stat


def _content(path):
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _xattrs(path):
    return {name: os.getxattr(path, name, follow_symlinks=False)
            for name in sorted(os.listxattr(path, follow_symlinks=False))}


def _entry(name, status, first_names, path):
    entry = {"mode": oct(status.st_mode), "owner": (status.st_uid, status.st_gid),
             "mtime_ns": status.st_mtime_ns, "xattrs": _xattrs(name)}
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        entry["target"] = os.readlink(name)
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        entry["device"] = status.st_rdev
    elif kind == stat.S_IFREG:
        entry["size"] = status.st_size
        entry["content"] = _content(name)
    if kind != stat.S_IFDIR:
        entry["links"] = status.st_nlink
        if status.st_nlink > 1:  # which names are one file, told by the first of them
            entry["same_as"] = first_names.setdefault((status.st_dev, status.st_ino), path)
    return entry


def take(top):
    """{path below top: facts}. Goes from folder to folder, so that no name is looked up twice."""
    entries, first_names, pending = {}, {}, [""]
    back = os.open(".", os.O_PATH)
    try:
        while pending:
            folder = pending.pop()
            os.chdir(os.path.join(top, folder))
            with os.scandir(".") as listing:
                names = sorted(entry.name for entry in listing)
            for name in names:
                path = os.path.join(folder, name)
                status = os.lstat(name)
                entries[path] = _entry(name, status, first_names, path)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
    finally:
        os.fchdir(back)
        os.close(back)
    return entries


def assert_same(expected, found):
    """Names the first few differences."""
    if expected == found:
        return
    words = []
    for name in sorted(expected.keys() | found.keys()):
        one, two = expected.get(name), found.get(name)
        if one is None or two is None:
            words.append(f"{name}: {'missing' if two is None else 'unexpected'}")
        elif one != two:
            facts = [key for key in one.keys() | two.keys() if one.get(key) != two.get(key)]
            words.append(f"{name}: " + ", ".join(
                f"{key} {one.get(key)!r} became {two.get(key)!r}" for key in sorted(facts)))
    raise AssertionError(f"{len(words)} entries differ:\n  " + "\n  ".join(words[:20]))
