"""The database of a drill: one file of SQLite, each of whose changes is a transaction.

Change N writes N into some rows, which follow from N alone. So whoever knows how many changes were
done knows what is in each row; a row's content follows from its number and its last change.
"""
import contextlib
import random
import sqlite3

ROWS, ROW_BYTES = 2000, 1500
CHANGED_ROWS, READ_ROWS = 8, 4
CACHE_PAGES = 50  # so that rows are read from the file
NEVER = -1  # the change of a row that none has written


def content(row, change):
    return random.Random(f"{row} {change}").randbytes(ROW_BYTES)


def changed_by(number):
    return random.Random(number).sample(range(ROWS), CHANGED_ROWS)


def changes_after(numbers):
    """The last change of each row, when those are done."""
    last = [NEVER] * ROWS
    for number in numbers:
        for row in changed_by(number):
            last[row] = number
    return last


@contextlib.contextmanager
def _as_os_errors():
    try:
        yield
    except sqlite3.Error as problem:
        raise OSError(f"SQLite: {problem}") from None


class Database:
    """That one program writes."""

    def __init__(self, path):
        with _as_os_errors():
            self.file = sqlite3.connect(path, isolation_level=None)
            self.file.execute("PRAGMA journal_mode = DELETE")
            self.file.execute("PRAGMA synchronous = FULL")
            self.file.execute(f"PRAGMA cache_size = {CACHE_PAGES}")
            self.file.execute("CREATE TABLE rows (row INTEGER PRIMARY KEY, change INTEGER, "
                              "content BLOB)")
            with self.file:
                self.file.execute("BEGIN")
                self.file.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?)",
                    ((row, NEVER, content(row, NEVER)) for row in range(ROWS)))

    def change(self, number):
        """It is durable afterwards. Some other rows are looked at."""
        with _as_os_errors(), self.file:
            self.file.execute("BEGIN")
            for row in changed_by(number):
                self.file.execute("UPDATE rows SET change = ?, content = ? WHERE row = ?",
                                  (number, content(row, number), row))
        with _as_os_errors():
            for row in random.sample(range(ROWS), READ_ROWS):
                found = self.file.execute("SELECT row, change, content FROM rows WHERE row = ?",
                                          (row,)).fetchone()
                if found is None or content(*found[:2]) != found[2]:
                    raise OSError(f"row {row} is not as it was written")


def changes_in(path):
    """The last change of each row, as another program finds it; a list of strings says what is
    wrong with the file. What a program that died has left half done is undone."""
    with _as_os_errors(), contextlib.closing(sqlite3.connect(path)) as file:
        wrong = [line for line, in file.execute("PRAGMA integrity_check") if line != "ok"]
        last, rows = [], file.execute("SELECT row, change, content FROM rows ORDER BY row")
        for row, change, found in rows:
            if found != content(row, change):
                wrong.append(f"row {row} is not as change {change} has written it")
            last.append(change)
        return {"wrong": wrong, "last": last}
