"""What a program's log says, and when: (seconds of CLOCK_REALTIME on its host, level, words).

A process writes its log itself; of a machine it is in the journal.
"""
import json
import re
from datetime import datetime

# Of a controller, and of a client.
_LINE = re.compile(r"\[?(\d+-\d+-\d+ \d+:\d+:\d+\.\d+)\]? (?:\[\S+\] )?\[?(\w+)[\]:]+ (.*)")
_LEVELS = ("critical", "critical", "critical", "error", "warning", "info", "info", "debug")


def marks_of_log(lines):
    """What a library or the lab has written in between is no mark."""
    for line in lines:
        if mark := _LINE.match(line):
            when = datetime.strptime(mark[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
            yield when, mark[2], mark[3]


def marks_of_journal(lines):
    """Of `journalctl --output json`."""
    for line in lines:
        entry = json.loads(line)
        words = entry.get("MESSAGE") or ""
        if isinstance(words, list):  # of bytes, where they are no text
            words = bytes(words).decode(errors="replace")
        level = _LEVELS[int(entry.get("PRIORITY", 6))]
        yield int(entry["__REALTIME_TIMESTAMP"]) / 1e6, level, words
