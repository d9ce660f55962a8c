"""Work as people do it on a local disk, and every byte of it still there after a restart."""
import os
import shutil

import pytest

import manifest
from cluster import run

# With --long, the trees that a whole system has; else a part of them.
LONG = bool(os.environ.get("REEL_LONG"))
ENTRIES = 20000 if LONG else 1500
SYSTEM_TREES = ("/usr/include", "/usr/share/doc") if LONG else ("/usr/include/linux",)
GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org",
       "-c", "init.defaultBranch=main", "-c", "gc.auto=0")


def _count(tree):
    return sum(len(folders) + len(files) for _, folders, files in os.walk(tree))


def _set_xattr(path, name, value):
    try:
        os.setxattr(path, "user." + name, value)
    except OSError:  # tmpfs before Linux 6.6 has no user attributes
        os.setxattr(path, "trusted." + name, value)


def make_special_tree(top, entries):
    """What system trees lack (xattrs, odd modes, owners, times, links, a hole), and as many plain
    entries as are wanted."""
    os.mkdir(top)
    for number in range(max(entries, 300)):
        folder = os.path.join(top, f"reel{number // 200:03}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"take {number:05} ünïcode.txt")
        with open(path, "w") as file:
            file.write(f"frame {number}\n" * (number % 97))
        if number % 10 == 0:
            os.chmod(path, (0o600, 0o4755, 0o2644, 0o444)[number // 10 % 4])
            os.chown(path, number, number // 2, follow_symlinks=False)
            _set_xattr(path, f"timecode{number % 3}", b"\x0001:00:%02d" % (number % 60))
        if number % 10 == 1:
            os.link(path, path + ".link")
        if number % 10 == 2:
            os.symlink(f"../missing/{number}", path + ".symlink")
        # Old times for all: rsync leaves what was made in the second of the original as it is.
        for name in (path, path + ".symlink")[:1 + (number % 10 == 2)]:
            os.utime(name, ns=(1, 1_500_000_000_123_456_789 + number), follow_symlinks=False)
    os.mkfifo(os.path.join(top, "fifo"), 0o640)
    os.mknod(os.path.join(top, "null"), 0o20666, os.makedev(1, 3))
    for name in ("fifo", "null"):
        os.utime(os.path.join(top, name), ns=(1, 1_400_000_000_000_000_001))
    with open(os.path.join(top, "sparse"), "wb") as file:
        file.seek(50 << 20)
        file.write(b"end")
    _set_xattr(os.path.join(top, "reel000"), "owner", b"x" * 2000)


@pytest.mark.seconds(3600 if LONG else 900)
class TestRealWork:
    """In this order: each leaves its trees for the last one, which restarts everything."""

    expected = {}

    def test_rsync_in_and_back(self, cluster):
        special = os.path.join(cluster.scratch, "special")
        make_special_tree(special, ENTRIES - sum(map(_count, SYSTEM_TREES)))
        sources = [*SYSTEM_TREES, special]
        target = os.path.join(cluster.ws1, "copy")
        run("rsync", "-aHAX", *sources, target + "/")
        back = os.path.join(cluster.scratch, "back")
        run("rsync", "-aHAX", target + "/", back + "/")
        for source in sources:
            name = os.path.basename(source)
            expected = manifest.take(source)
            manifest.assert_same(expected, manifest.take(os.path.join(back, name)))
            self.expected[f"copy/{name}"] = expected
        assert sum(map(len, self.expected.values())) >= ENTRIES
        shutil.rmtree(back)

    def test_git(self, cluster):
        git_dir, tree = os.path.join(cluster.ws1, "repo.git"), os.path.join(cluster.ws1, "copy")
        run(*GIT, "init", "-q", "--bare", git_dir)
        TestRealWork.git = (*GIT, f"--git-dir={git_dir}", f"--work-tree={tree}")
        run(*self.git, "add", "-A")
        run(*self.git, "commit", "-q", "-m", "All of it")
        run(*self.git, "fsck", "--strict")
        assert run(*self.git, "status", "--porcelain") == ""

    def test_build_and_run_a_program(self, cluster):
        project = os.path.join(cluster.ws1, "project")
        os.mkdir(project)
        sources = []
        for number in range(6):
            sources.append(f"part{number}.cc")
            with open(os.path.join(project, sources[-1]), "w") as file:
                file.write(f"#include <string>\nstd::string Part{number}() "
                           f"{{ return \"{number}\"; }}\n")
        with open(os.path.join(project, "main.cc"), "w") as file:
            file.write("#include <iostream>\n#include <string>\n")
            file.writelines(f"std::string Part{number}();\n" for number in range(6))
            file.write("int main() { std::cout << " +
                       " + ".join(f"Part{number}()" for number in range(6)) + "; }\n")
        with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
            file.write("cmake_minimum_required(VERSION 3.20)\nproject(parts CXX)\n"
                       f"add_library(parts STATIC {' '.join(sources)})\n"
                       "add_executable(program main.cc)\ntarget_link_libraries(program parts)\n")
        run("cmake", "-S", project, "-B", os.path.join(project, "build"), "-G", "Ninja",
            env={**os.environ, "CCACHE_DISABLE": "1"})
        run("ninja", "-C", os.path.join(project, "build"))
        TestRealWork.program = os.path.join(project, "build", "program")
        assert run(self.program) == "012345"
        assert "no work to do" in run("ninja", "-C", os.path.join(project, "build"))

    def test_sqlite(self, cluster):
        for journal in ("delete", "wal"):
            database = os.path.join(cluster.ws1, f"{journal}.sqlite")
            inserts = "".join(f"INSERT INTO shots VALUES ({n}, hex(randomblob(200)));\n"
                              for n in range(200))
            script = (f"PRAGMA journal_mode={journal};\n"
                      "CREATE TABLE shots (n INTEGER, name TEXT);\n"
                      f"{inserts}UPDATE shots SET name = name || '!' WHERE n % 2;\n"
                      "DELETE FROM shots WHERE n >= 150;\nVACUUM;\n")
            assert run("sqlite3", "-bail", database, script).splitlines()[0] == journal
            self.check_database(database)

    @staticmethod
    def check_database(database):
        assert run("sqlite3", database, "PRAGMA integrity_check; SELECT count(*), "
                   "sum(length(name)) FROM shots;").split() == ["ok", "150|60075"]

    def test_all_is_there_after_a_restart(self, cluster):
        cluster.restart()
        for name, expected in self.expected.items():
            manifest.assert_same(expected, manifest.take(os.path.join(cluster.ws2, name)))
        run(*self.git, "fsck", "--strict")
        assert run(*self.git, "status", "--porcelain") == ""
        assert run(self.program) == "012345"
        for journal in ("delete", "wal"):
            self.check_database(os.path.join(cluster.ws2, f"{journal}.sqlite"))
        cluster.fsck()
