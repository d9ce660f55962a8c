"""Programs that several workstations run on the same files: git, sqlite, a build."""
import os
import sqlite3
import subprocess

import pytest

from run_all import check_on_others, meet, run_all
from cluster import run

# The last two in the page cache, as on kernels before 6.6.
CLUSTER = {"clients": 4, "mount_options": ["", "", "cache=page", "cache=page"],
           "luns": "meta=1x1G,data=2x4G"}
LONG = bool(os.environ.get("REEL_LONG"))
pytestmark = pytest.mark.seconds(1800 if LONG else 240)

# ---- git

GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "gc.auto=0",
       "-c", "init.defaultBranch=main")


def test_a_repository_used_in_turn(room):
    """Commits on one host; the other checks out, collects garbage, checks; then the other way."""
    rounds = 100 if LONG else 20
    run(*GIT, "init", "-q", f"{room[0]}/repo")
    run(*GIT, "-C", f"{room[0]}/repo", "commit", "-q", "--allow-empty", "-m", "Begin")
    run(*GIT, "clone", "-q", f"{room[3]}/repo", f"{room[3]}/clone")
    for number in range(rounds):
        here, there = room[number % 4], room[(number + 1) % 4]
        git_here, git_there = ((*GIT, "-C", f"{place}/repo") for place in (here, there))
        run(*git_here, "checkout", "-q", "-b", f"branch{number}")
        for name in ("a", f"new{number}", "deep/in/there"):
            os.makedirs(os.path.dirname(f"{here}/repo/{name}"), exist_ok=True)
            with open(f"{here}/repo/{name}", "a") as file:
                file.write(f"round {number}\n" * 300)
        run(*git_here, "add", "-A")
        run(*git_here, "commit", "-q", "-m", f"Round {number}")
        assert run(*git_there, "status", "--porcelain") == ""
        assert run(*git_there, "log", "-1", "--format=%s") == f"Round {number}\n"
        run(*git_there, "checkout", "-q", "main")
        assert not os.path.exists(f"{here}/repo/new{number}")
        run(*git_there, "merge", "-q", "--no-ff", "-m", "Merge", f"branch{number}")
        if number % 3 == 0:
            run(*git_there, "gc", "-q", "--prune=now")
        assert run(*git_here, "status", "--porcelain") == ""
        run(*git_here, "fsck", "--strict", "--no-progress")
        run(*GIT, "-C", f"{there}/clone", "pull", "-q")
        assert run(*GIT, "-C", f"{here}/clone", "status", "--porcelain") == ""
    count = run(*GIT, "-C", f"{room[2]}/clone", "rev-list", "--count", "HEAD")
    assert int(count) == 2 * rounds + 1


# ---- sqlite

ROWS = 500 if LONG else 40


def connect(path):
    return sqlite3.connect(path, timeout=100, isolation_level=None)


def insert_rows(path, host):
    database = connect(path)
    database.execute("PRAGMA busy_timeout = 100000")
    meet()
    for number in range(ROWS):
        database.execute("BEGIN IMMEDIATE")
        last, = database.execute("SELECT count(*) FROM shots WHERE host = ?", (host,)).fetchone()
        assert last == number
        database.execute("INSERT INTO shots VALUES (?, ?, ?)", (host, number, f"{number}" * 300))
        database.execute("UPDATE total SET rows = rows + 1")
        database.execute("COMMIT")
    database.close()


def read_rows(path, expected):
    database = connect(path)
    meet()
    seen = 0
    while seen < expected:
        database.execute("BEGIN")
        rows, = database.execute("SELECT rows FROM total").fetchone()
        count, = database.execute("SELECT count(*) FROM shots").fetchone()
        database.execute("COMMIT")
        assert seen <= rows == count
        seen = rows
    database.close()


def test_a_database_written_by_three_hosts(room):
    path = "shots.sqlite"
    database = connect(f"{room[0]}/{path}")
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("CREATE TABLE shots (host INTEGER, number INTEGER, name TEXT)")
    database.execute("CREATE INDEX names ON shots (host, number)")
    database.execute("CREATE TABLE total (rows INTEGER)")
    database.execute("INSERT INTO total VALUES (0)")
    database.close()
    writers = range(3)
    run_all(*((insert_rows, f"{room[host]}/{path}", host) for host in writers),
            (read_rows, f"{room[3]}/{path}", ROWS * len(writers)))
    for place in room:
        database = connect(f"{place}/{path}")
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = database.execute("SELECT host, number FROM shots ORDER BY host, number").fetchall()
        assert rows == [(host, number) for host in writers for number in range(ROWS)]
        database.close()


# ---- a build

PARTS = 4
VERSIONS = 12 if LONG else 4
CMAKE = f"""cmake_minimum_required(VERSION 3.20)
project(parts CXX)
add_library(parts STATIC {' '.join(f'part{part}.cc' for part in range(PARTS))})
add_executable(linking main.cc)
target_link_libraries(linking parts)
# As installing does: other hosts do not get ETXTBSY for what is being written here.
add_custom_command(TARGET linking POST_BUILD COMMAND cp linking program.new
                   COMMAND mv program.new program)
"""


def write_part(place, part, version):
    """In place and by one write: who compiles meanwhile finds one version or the other, whole."""
    text = f'const char* Part{part}() {{ return "{version:2}"; }}\n'.encode()
    file = os.open(f"{place}/project/part{part}.cc", os.O_WRONLY | os.O_CREAT)
    assert os.write(file, text) == len(text)
    os.close(file)


def build_until(place, last):
    """Builds whenever something has changed, until a build contains all of it."""
    meet()
    while True:
        run("ninja", "-C", f"{place}/build")
        if run(f"{place}/build/program").split() == [f"{last}"] * PARTS:
            return meet()


def edit(place, runs):
    """One version after the other, each when somebody has run the one before."""
    meet()
    with open(runs) as ran:
        for version in range(2, VERSIONS + 1):
            for part in range(PARTS):
                write_part(place, part, version)
            while int(ran.readline()) < version:
                pass
    meet()


def run_what_appears(place, last, runs):
    with open(runs, "r+b", buffering=0) as ran:
        meet()
        report_runs(place, last, ran)
        meet()  # the editor reads what stands in the pipe as long as somebody has it open


def report_runs(place, last, ran):
    seen = [1] * PARTS
    while seen != [last] * PARTS:
        check_on_others()
        done = subprocess.run([f"{place}/build/program"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        now = [int(version) for version in done.stdout.split()]
        assert len(now) == PARTS and all(map(int.__le__, seen, now)), (seen, now)
        if min(now) > min(seen):
            ran.write(f"{min(now)}\n".encode())
        seen = now


def test_a_build_while_others_edit_and_run(cluster, room):
    runs = f"{cluster.scratch}/runs"
    os.mkfifo(runs)
    os.mkdir(f"{room[0]}/project")
    with open(f"{room[0]}/project/CMakeLists.txt", "w") as file:
        file.write(CMAKE)
    with open(f"{room[0]}/project/main.cc", "w") as file:
        file.write("#include <cstdio>\n")
        file.writelines(f"const char* Part{part}();\n" for part in range(PARTS))
        calls = ", ".join(f"Part{part}()" for part in range(PARTS))
        file.write(f'int main() {{ std::printf("{"%s " * PARTS}\\n", {calls}); }}\n')
    for part in range(PARTS):
        write_part(room[0], part, 1)
    run("cmake", "-S", f"{room[0]}/project", "-B", f"{room[0]}/build", "-G", "Ninja",
        env={**os.environ, "CCACHE_DISABLE": "1"})
    run("ninja", "-C", f"{room[0]}/build")
    run_all((build_until, room[0], VERSIONS), (edit, room[1], runs),
            (run_what_appears, room[2], VERSIONS, runs),
            (run_what_appears, room[3], VERSIONS, runs))
    assert "no work to do" in run("ninja", "-C", f"{room[0]}/build")
