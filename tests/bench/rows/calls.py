"""The programs whose calls tests/bench/calls counts."""
import dataclasses
import os
import sys
import typing

from rows import work

FILES = 1_000
ROWS = 200  # of a database
CODE = {
    "create": "os.close(os.open(f'n{i}', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))",
    "create, write 4 KiB": "f = open(f'n{i}', 'wb', buffering=0); f.write(b'x' * 4096); f.close()",
    "unlink": "os.unlink(f'f{i}')",
    "rename": "os.rename(f'f{i}', f'n{i}')",
    "replace": "os.close(os.open('n', os.O_CREAT | os.O_EXCL | os.O_WRONLY)); "
               "os.rename('n', f'f{i}')",
    "link": "os.link(f'f{i}', f'n{i}')",
    "symlink": "os.symlink('there', f'n{i}')",
    "mkdir": "os.mkdir(f'n{i}')",
    "chmod": "os.chmod(f'f{i}', 0o600)",
    "utime": "os.utime(f'f{i}', (1, 1))",
    "stat": "os.stat(f'f{i}')",
    "open, read, close": "f = os.open(f'f{i}', os.O_RDONLY); os.read(f, 65536); os.close(f)",
    "write, fsync": "f = os.open('f0', os.O_WRONLY); os.pwrite(f, b'y' * 4096, i * 4096); "
                    "os.fsync(f); os.close(f)",
}


@dataclasses.dataclass
class Program:
    name: str
    turns: int
    prepare: typing.Callable
    command: typing.Callable


def no_files(_place):
    pass


def files(place):
    for number in range(FILES):
        with open(os.path.join(place, f"f{number}"), "wb") as file:
            file.write(b"x" * 4096)


def python(code):
    return lambda _place: (sys.executable, "-I", "-S", "-c",
                           f"import os\nfor i in range({FILES}):\n  {code}")


def archive(place):
    path = f"{place}.tar"
    if not os.path.exists(path):
        work.make_archive(path)


def unpacked(place):
    archive(place)
    work.run("tar", "-C", place, "-xf", f"{place}.tar")


def repository(place):
    files(place)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x"), ("status",)):
        work.run("git", "-c", "user.name=x", "-c", "user.email=x", "-c", "safe.directory=*", *words,
                 cwd=place)


def database(journal):
    return (sys.executable, "-I", "-c",
            "import sqlite3\n"
            "d = sqlite3.connect('d', isolation_level=None)\n"
            f"d.execute('PRAGMA journal_mode={journal}')\n"
            "d.execute('PRAGMA synchronous=FULL')\n"
            "d.execute('CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)')\n"
            f"for i in range({ROWS}): d.execute('INSERT INTO t (b) VALUES (?)', ('x' * 100,))\n")


PROGRAMS = [
    *(Program(name, FILES, no_files if name.startswith(("create", "symlink", "mkdir")) else files,
              python(code)) for name, code in CODE.items()),
    Program("ls -l", FILES, files, lambda place: ("ls", "-l", place)),
    Program("tar x", work.ARCHIVED, archive,
            lambda place: ("tar", "-C", place, "-xf", f"{place}.tar")),
    Program("rm -r", work.ARCHIVED, unpacked,
            lambda place: ("find", place, "-mindepth", "1", "-delete")),
    Program("grep -r", work.ARCHIVED, unpacked,
            lambda place: ("sh", "-c", f"grep -rc needle {place} > /dev/null || true")),
    Program("git status", FILES, repository,
            lambda place: ("git", "-c", "safe.directory=*", "-C", place, "status")),
    Program("sqlite WAL", ROWS, no_files, lambda _place: database("WAL")),
    Program("sqlite DELETE", ROWS, no_files, lambda _place: database("DELETE")),
]
