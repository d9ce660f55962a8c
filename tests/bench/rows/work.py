"""Programs as users run them."""
import io
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import time

ARCHIVED = 10_000
TRACKED = 20_000
SOURCES = 60
SECONDS = 5


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def seconds(action):
    began = time.monotonic()
    action()
    return time.monotonic() - began


def make_archive(path):
    with tarfile.open(path, "w") as archive:
        for number in range(ARCHIVED):
            entry = tarfile.TarInfo(f"d{number // 100}/f{number}")
            entry.size, entry.mode, entry.mtime = 4_000, 0o644, 1_600_000_000 + number
            archive.addfile(entry, io.BytesIO(os.urandom(entry.size)))


def unpacking(place, path):
    unpacked = os.path.join(place, "unpacked")
    os.mkdir(unpacked)

    def unpack():
        run("tar", "-C", unpacked, "-xf", path)
        run("sync", "-f", unpacked)
    return {"tar x of 10,000 + sync, s": seconds(unpack)}


def grepping(directory):
    return seconds(lambda: run("sh", "-c", f"find {directory} -type f -print0 |"
                               " xargs -0 grep -c needle > /dev/null || true"))


def archive(place, path, place_of_other):
    """`place_of_other`: the same by another host (of XFS: this one)."""
    took = unpacking(place, path)
    unpacked = os.path.join(place, "unpacked")
    return {**took,
            "grep of another host's files, s": grepping(os.path.join(place_of_other, "unpacked")),
            "find | xargs grep of them, s": grepping(unpacked),
            "rm -r of them, s": seconds(lambda: run("rm", "-r", unpacked))}


def git(place):
    """`git status` of a work tree that has not changed, once it has been asked before."""
    tree = os.path.join(place, "tree")
    for number in range(TRACKED // 200):
        os.makedirs(os.path.join(tree, f"d{number}"))
        for file in range(200):
            with open(os.path.join(tree, f"d{number}", f"f{file}"), "w", encoding="ascii") as out:
                out.write(f"{number} {file}\n")

    def git_in_tree(*words):
        run("git", "-c", "user.name=x", "-c", "user.email=x", "-c", "safe.directory=*",
            "-c", "gc.auto=0", *words, cwd=tree)
    git_in_tree("init", "-q")
    git_in_tree("add", ".")
    git_in_tree("commit", "-q", "-m", "x")
    git_in_tree("status")
    return {"git status of 20,000, s": seconds(lambda: git_in_tree("status"))}


def build(place):
    """cmake and ninja of many small sources."""
    source, made = os.path.join(place, "source"), os.path.join(place, "build")
    os.mkdir(source)
    for number in range(SOURCES):
        with open(os.path.join(source, f"f{number}.cc"), "w", encoding="ascii") as out:
            out.write("#include <string>\n#include <vector>\n"
                      f"int f{number}(std::vector<std::string> v) {{ return v.size(); }}\n")
    with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="ascii") as out:
        out.write("cmake_minimum_required(VERSION 3.20)\nproject(x CXX)\nadd_library(x\n" +
                  "\n".join(f"f{number}.cc" for number in range(SOURCES)) + ")\n")

    def make():
        run("cmake", "-G", "Ninja", "-S", source, "-B", made)
        run("ninja", "-C", made)
    return {"cmake + ninja, s": seconds(make)}


def transactions(place, journal):
    """Rows a second, a transaction each."""
    database = sqlite3.connect(os.path.join(place, f"{journal}.db"), isolation_level=None)
    database.execute(f"PRAGMA journal_mode={journal}")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    rows, began = 0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        database.execute("INSERT INTO t (b) VALUES (?)", ("x" * 100,))
        rows += 1
    rate = rows / (time.monotonic() - began)
    database.close()
    return {f"sqlite {journal}, /s": rate}


def dbench(place):
    printed = run("dbench", "-t", str(2 * SECONDS), "-D", place, "12")
    return {"dbench 12, MB/s": float(re.search(r"Throughput ([0-9.]+)", printed).group(1))}
