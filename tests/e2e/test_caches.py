"""What each client remembers of names and attributes is never older than what the other did."""
import contextlib
import mmap
import os
import random
import stat
import subprocess
import threading

import pytest

from cluster import until


def snapshot(path):
    """What a person would see of a tree: names, types, modes, owners, links, sizes, targets."""
    seen = {}
    for top, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(top, name)
            entry = os.lstat(full)
            target = os.readlink(full) if stat.S_ISLNK(entry.st_mode) else None
            size = entry.st_size if stat.S_ISREG(entry.st_mode) else None
            seen[os.path.relpath(full, path)] = (entry.st_mode, entry.st_uid, entry.st_nlink, size,
                                                 target)
    return seen


class Change:
    """One random change of a tree, the same for every root that it is applied to."""

    NAMES = [f"{folder}{name}" for folder in ("", "a/", "b/") for name in "pqrst"]

    def __init__(self, dice):
        self.kind = dice.choice(("write", "append", "truncate", "unlink", "rename", "link",
                                 "symlink", "chmod", "mkdir", "rmdir", "chown"))
        self.one, self.other = dice.choice(self.NAMES), dice.choice(self.NAMES)
        self.number = dice.randrange(1 << 16)

    def apply(self, root):
        """The errno, 0 for success."""
        one, other = os.path.join(root, self.one), os.path.join(root, self.other)
        try:
            getattr(self, "_" + self.kind)(one, other)
        except OSError as error:
            return error.errno
        return 0

    def _write(self, one, _):
        with open(one, "w") as file:
            file.write("x" * self.number)

    def _append(self, one, _):
        fd = os.open(one, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"y" * (self.number % 100))
        os.close(fd)

    def _truncate(self, one, _):
        os.truncate(one, self.number)

    def _unlink(self, one, _):
        os.unlink(one)

    def _rename(self, one, other):
        os.rename(one, other)

    def _link(self, one, other):
        os.link(one, other, follow_symlinks=False)

    def _symlink(self, one, _):
        os.symlink(f"target{self.number}", one)

    def _chmod(self, one, _):
        os.chmod(one, 0o700 | self.number & 0o77)

    def _mkdir(self, one, _):
        os.mkdir(one)

    def _rmdir(self, one, _):
        os.rmdir(one)

    def _chown(self, one, _):
        os.chown(one, self.number, -1, follow_symlinks=False)


@pytest.mark.parametrize("seed", range(3))
def test_both_see_each_change(cluster, room, tmp_path, seed):
    """Changes through either client, in turn, beside the same ones on a local file system."""
    dice = random.Random(seed)
    roots = (*room, str(tmp_path))
    for folder in ("a", "b"):
        os.mkdir(os.path.join(room[0], folder))
        os.mkdir(tmp_path / folder)
    for step in range(250):
        change = Change(dice)
        through = dice.randrange(2)
        done = change.apply(room[through]), change.apply(str(tmp_path))
        assert done[0] == done[1], (seed, step, vars(change))
        if dice.random() < 0.3:  # fills the caches, and leaves them alone for a while
            first, second, local = map(snapshot, roots)
            assert first == second == local, (seed, step, vars(change))
    first, second, local = map(snapshot, roots)
    assert first == second == local


def test_caches_do_not_stop_each_other(cluster, room):
    """Both clients at once in one directory, each looking at what the other changes."""
    failures = []

    def work(mine, theirs, other):
        try:
            for number in range(150):
                path = os.path.join(room[mine], f"{theirs}.{number}")
                with open(path, "w") as file:
                    file.write("text")
                os.listdir(room[mine])
                seen = os.path.join(room[mine], f"{other}.{number}")
                with contextlib.suppress(FileNotFoundError):  # not there yet, or gone again
                    assert os.stat(seen).st_size in (0, 4)
                if number % 3 == 0:
                    os.unlink(path)
                    assert not os.path.exists(path)
        except BaseException as error:  # told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=arguments)
               for arguments in ((0, "one", "two"), (1, "two", "one"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(os.listdir(room[0])) == sorted(os.listdir(room[1]))
    assert len(os.listdir(room[0])) == 200


def test_cached_attributes_cost_no_round_trip(cluster, room):
    path = os.path.join(room[0], "file")
    with open(path, "w") as file:
        file.write("text")
    os.stat(path)
    before = cluster.counters()
    for _ in range(100):
        os.stat(path)
        assert not os.path.exists(path + ".absent")
    after = cluster.counters()
    asked = sum(after[name] - before[name] for name in ("op.lookup", "op.get_attr"))
    assert asked <= 5  # the absent name, once


def found(path):
    """What stat(2) of a name says."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def test_the_kernel_forgets_what_the_other_changes(cluster, room):
    """Names that the kernel of one host keeps, there and absent, in a directory and above it, are
    what the other one has made of them as soon as its call has returned."""
    for number in range(20):
        folder = os.path.join(room[0], f"d{number}", "e")
        os.makedirs(folder)
        with open(os.path.join(folder, "file"), "w") as file:
            file.write("text")
        mine, theirs = (os.path.join(place, f"d{number}") for place in room)
        looks = [os.path.join(*names) for names in (("e", "file"), ("e", "new"), ("f", "file"))]
        looks.append("e")
        old, new = (os.path.join(mine, "e", name) for name in ("file", "new"))
        changes = [lambda: os.rename(old, new), lambda: os.unlink(new), lambda: os.mkdir(old),
                   lambda: os.rename(os.path.join(mine, "e"), os.path.join(mine, "f"))]
        for change in changes if number % 2 == 0 else changes[3:]:
            for path in looks * 3:
                found(os.path.join(theirs, path))
            change()
            for path in looks:
                here, there = (found(os.path.join(place, path)) for place in (mine, theirs))
                assert here == there, path


def attributes(path):
    """All that changes with the file, but not with looking at it."""
    found_there = os.stat(path)
    return (found_there.st_mode, found_there.st_uid, found_there.st_nlink, found_there.st_size,
            found_there.st_blocks, found_there.st_mtime_ns, found_there.st_ctime_ns)


def write_direct(path):
    """Past the kernel's pages."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    os.pwrite(fd, mmap.mmap(-1, 1 << 16), 0)
    os.close(fd)


def append(path):
    with open(path, "ab") as file:
        file.write(b"more")


CHANGES = (append, lambda path: os.chmod(path, 0o600), lambda path: os.truncate(path, 100_000),
           write_direct, lambda path: os.utime(path, (5, 5)),
           lambda path: os.link(path, path + ".link"), lambda path: os.truncate(path, 3))


def test_the_kernel_forgets_attributes_of_files_that_change(cluster, room):
    """Whoever changes one: the host that has looked, or another."""
    for number in range(12):
        path = os.path.join(room[0], f"f{number}")
        with open(path, "w") as file:
            file.write("text" * number * 1000)
            os.fsync(file.fileno())
        here = os.path.join(room[number % 2], f"f{number}")
        for change in CHANGES:
            before = {place: attributes(os.path.join(place, f"f{number}")) for place in room}
            for place in room * 3:
                attributes(os.path.join(place, f"f{number}"))
            change(here)
            after = [attributes(os.path.join(place, f"f{number}")) for place in room]
            assert after[0] == after[1], (number, change)
            assert after[0] != before[room[0]]


def test_a_listing_that_the_kernel_keeps_shows_what_the_other_changes(cluster, room):
    """Also where the directory's times are set back behind the change, and in a listing that was
    open before it."""
    mine, theirs = room
    shown = {f"f{number}" for number in range(300)}  # more than one request's worth
    for name in shown:
        with open(os.path.join(mine, name), "w"):
            pass
    for number in range(10):
        times = os.stat(mine)
        for place in (theirs, mine) * 3:
            assert set(os.listdir(place)) == shown
        handle = os.open(theirs, os.O_RDONLY | os.O_DIRECTORY)
        try:
            assert set(os.listdir(handle)) == shown
            os.rename(os.path.join(mine, f"f{number}"), os.path.join(mine, f"g{number}"))
            shown = shown - {f"f{number}"} | {f"g{number}"}
            if number % 2 == 0:
                os.utime(mine, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert set(os.listdir(theirs)) == shown
            assert set(os.listdir(handle)) == shown
        finally:
            os.close(handle)


def test_a_listing_begun_before_a_change_does_not_end_up_in_a_later_one(cluster, room):
    """The kernel has one listing of a directory, to which all opens that may add."""
    mine = room[0]
    shown = {f"{number:04}-{'x' * 100}" for number in range(3_000)}
    for name in shown:
        with open(os.path.join(mine, name), "w"):
            pass
    for number in range(5):
        with os.scandir(mine) as old:
            next(old)
            assert set(os.listdir(mine)) == shown
            new = f"new{number}"
            with open(os.path.join(mine, new), "w"):
                pass
            shown.add(new)
            with os.scandir(mine) as begun:
                next(begun)
                assert len(list(old)) >= 2_999
                assert set(os.listdir(mine)) == shown
            assert set(os.listdir(mine)) == shown
        assert set(os.listdir(mine)) == shown


def test_mounts_below_stay(cluster, room):
    """A mount on a directory of the volume survives that another host changes names around it."""
    inner = os.path.join(room[0], "a", "inner")
    # By the other host: of directories that this one changes its kernel keeps no names.
    os.makedirs(os.path.join(room[1], "a", "inner"))
    os.mkdir(os.path.join(room[1], "a", "other"))
    # In a mount namespace of its own, as a container would have it.
    script = ("mount -t tmpfs none \"$1\" && touch \"$1/here\" && echo mounted && read go"
              " && ls \"$1\"")
    with subprocess.Popen(("unshare", "--mount", "sh", "-c", script, "sh", inner),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout.readline() == "mounted\n"
        for number in range(3):
            found(os.path.join(room[0], "a", "other", "name"))
            found(os.path.join(room[0], "a", f"new{number}"))
            os.mkdir(os.path.join(room[1], "a", f"new{number}"))
            assert found(os.path.join(room[0], "a", f"new{number}"))
        seen, _ = shell.communicate("go\n", timeout=60)
    assert seen == "here\n"


def operations(cluster):
    """What the controller has been asked for, once nothing is on its way any more."""
    def count():
        return {name: value for name, value in cluster.counters().items()
                if name.startswith("op.") and value}
    before, now = None, count()
    while now != before:
        before, now = now, count()
    return now


def asked_for(cluster, action):
    before = operations(cluster)
    result = action()
    after = operations(cluster)
    return result, {name: value - before.get(name, 0) for name, value in after.items()
                    if value != before.get(name, 0)}


def test_a_second_lookup_asks_nothing(cluster, room):
    """A tree listed with all attributes, and a file read, for the second time: out of the client's
    own memory, also by a client that had no part in writing them."""
    files = 30_000 if os.environ.get("REEL_LONG") else 3_000
    for folder in range(30):
        os.mkdir(os.path.join(room[0], f"d{folder}"))
        for number in range(files // 30):
            with open(os.path.join(room[0], f"d{folder}", f"f{number}"), "w") as file:
                file.write(f"text {number}")
    cluster.restart()  # nothing is left to be told by those who wrote them
    for place in room:
        find = ("find", place, "-printf", "%i %M %n %u %s %t %P\n")
        first = subprocess.run(find, check=True, capture_output=True).stdout
        again, asked = asked_for(
            cluster, lambda: subprocess.run(find, check=True, capture_output=True).stdout)
        assert asked == {}
        assert again == first
        assert first.count(b"\n") == files + 31

        path = os.path.join(place, "d7", "f5")
        first = subprocess.run(("cat", path), check=True, capture_output=True).stdout
        again, asked = asked_for(
            cluster, lambda: subprocess.run(("cat", path), check=True, capture_output=True).stdout)
        assert asked == {}
        assert again == first == b"text 5"


def test_files_are_fetched_before_they_are_opened(cluster, room):
    """Whoever goes through another host's files asks for few of them, and reads what that host has
    made of them."""
    def name(root, number):
        return os.path.join(root, f"f{number}")

    def bytes_of(number, change):
        # Some lie with the controller, some on the LUNs.
        return f"{number} {change}".encode() * (1 + number % 7 * 500)

    def make(change, numbers):
        for number in numbers:
            with open(name(room[0], number), "wb") as file:
                file.write(bytes_of(number, change))

    def read_all():
        seen = []
        for number in range(200):
            with open(name(room[1], number), "rb") as file:
                seen.append(file.read())
        return seen

    make("first", range(200))
    with open(name(room[0], 0), "rb") as file:
        os.fsync(file.fileno())
    assert len(os.listdir(room[1])) == 200  # so that the writer lets others look
    for number in (0, 199):
        os.stat(name(room[1], number))
    before = cluster.counters()
    assert read_all() == [bytes_of(number, "first") for number in range(200)]
    after = cluster.counters()
    # (On a busy machine the reader overtakes what fetches ahead of it now and then.)
    assert after["op.open"] - before["op.open"] < 120
    make("second", range(0, 200, 3))
    assert read_all() == [bytes_of(number, "first" if number % 3 else "second")
                          for number in range(200)]


def test_a_delegated_directory_waits_for_no_controller(cluster, room):
    """Files are made and removed before the controller knows, and the other host sees them so."""
    one, two = (os.path.join(place, "mine") for place in room)
    os.mkdir(one)
    before = cluster.counters()["operation.delegated"]
    for number in range(200):
        with open(os.path.join(one, f"f{number}"), "w") as file:
            file.write(f"text {number}")
        if number % 2:
            os.unlink(os.path.join(one, f"f{number}"))
    assert sorted(os.listdir(two)) == sorted(f"f{number}" for number in range(0, 200, 2))
    delegated = cluster.counters()["operation.delegated"] - before
    asks_first = os.environ.get("REEL_NAMES") == "durable"  # the whole cluster, then
    assert delegated == 0 if asks_first else delegated > 250
    for number in range(0, 200, 2):
        with open(os.path.join(two, f"f{number}")) as file:
            assert file.read() == f"text {number}"
    # Each change from now on, by turns, is seen by the other at once.
    for number in range(0, 200, 2):
        mine, theirs = (one, two) if number % 4 else (two, one)
        os.unlink(os.path.join(mine, f"f{number}"))
        assert not os.path.exists(os.path.join(theirs, f"f{number}"))
        with open(os.path.join(mine, f"g{number}"), "x") as file:
            file.write("new")
        assert os.stat(os.path.join(theirs, f"g{number}")).st_size == 3


def test_older_names_change_without_waiting_too(cluster, room):
    """Of files that were there before, once the other host has no use for their directory."""
    one, two = (os.path.join(place, "mine") for place in room)
    os.mkdir(one)
    for number in range(200):
        with open(os.path.join(one, f"f{number}"), "w") as file:
            file.write(f"text {number}")
    os.stat(two)  # the delegation ends

    def delegated():
        return cluster.counters()["operation.delegated"]

    def is_delegated_again():
        before = delegated()
        for _ in range(3):
            path = os.path.join(one, "tried")
            with open(path, "x"):
                pass
            os.unlink(path)
        return delegated() > before

    asks_first = os.environ.get("REEL_NAMES") == "durable"
    if not asks_first:
        until(is_delegated_again)
    before = delegated()
    for number in range(200):
        os.rename(os.path.join(one, f"f{number}"), os.path.join(one, f"g{number}"))
    for number in range(1, 200, 2):
        os.unlink(os.path.join(one, f"g{number}"))
    for number in range(0, 200, 4):  # in place of another one
        os.rename(os.path.join(one, f"g{number + 2}"), os.path.join(one, f"g{number}"))
    for number in range(50):
        os.mkdir(os.path.join(one, f"d{number}"))
        os.symlink(f"g{number}", os.path.join(one, f"l{number}"))
        if number % 2:
            os.rmdir(os.path.join(one, f"d{number}"))
    changed = delegated() - before
    assert changed == 0 if asks_first else changed > 350

    left = [f"g{number}" for number in range(0, 200, 4)]
    left += [f"d{number}" for number in range(0, 50, 2)] + [f"l{number}" for number in range(50)]
    assert sorted(os.listdir(two)) == sorted(left)
    assert os.stat(two).st_nlink == os.stat(one).st_nlink == 2 + 25
    for number in range(0, 200, 4):
        with open(os.path.join(two, f"g{number}")) as file:
            assert file.read() == f"text {number + 2}"
    for number in range(50):
        assert os.readlink(os.path.join(two, f"l{number}")) == f"g{number}"
    subprocess.run(("rm", "-r", one), check=True)
    assert not os.path.exists(two)


def test_an_unregistered_open_file_survives_its_removal(cluster, room):
    """A file and a directory opened out of the caches, then removed by the other host."""
    folder = os.path.join(room[0], "folder")
    path = os.path.join(folder, "file")
    os.mkdir(folder)
    with open(path, "w") as file:
        file.write("text" * 5_000)
        file.flush()
        os.fsync(file.fileno())
    with open(path) as file:
        file.read()
    os.listdir(folder)

    def open_both():
        return os.open(path, os.O_RDONLY), os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    (file, directory), asked = asked_for(cluster, open_both)
    # What was written and when it was read may be told, and its token given up, just then.
    assert set(asked) <= {"op.layout_commit", "op.layout_return", "op.close", "op.set_attr"}
    os.unlink(os.path.join(room[1], "folder", "file"))
    os.rmdir(os.path.join(room[1], "folder"))
    assert os.fstat(file).st_nlink == 0
    assert os.pread(file, 30_000, 0) == b"text" * 5_000
    assert os.fstat(directory).st_nlink == 0
    assert os.listdir(directory) == []
    cluster.kill("mdc1")  # both are claimed in the new epoch
    cluster.start("mdc1")
    assert os.pread(file, 30_000, 0) == b"text" * 5_000
    assert os.fstat(directory).st_nlink == 0
    os.close(file)
    os.close(directory)


def test_a_dead_client_holds_up_no_other(cluster, room):
    """Its caches are waited for until its lease is over, when its session ends (cluster's guard
    ends a test that would wait for ever)."""
    path = os.path.join(room[1], "file")
    assert not os.path.exists(path)  # ws2 remembers the absence …
    cluster.kill("ws2")
    assert len(cluster.reeladm("who")["sessions"]) == 2
    with open(os.path.join(room[0], "file"), "w") as file:  # … so this has to wait for its end
        file.write("text")
    assert len(cluster.reeladm("who")["sessions"]) == 1
    cluster.start("ws2")
    with open(path) as file:
        assert file.read() == "text"
