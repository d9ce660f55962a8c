"""The table of what programs saw of each fault: for how long they waited, and what else happened.

REEL_GAPS=FILE keeps it, as Markdown.
"""
import os
import statistics

HEAD = ("fault", "longest wait for a file, created and synced", "what else was seen")


class Gaps:
    def __init__(self):
        self.rows, self.usual = [], []

    def note(self, fault, load, seen):
        """`load` has ended. What was noted is kept even if a later story fails."""
        self.rows.append((fault, f"{load.longest():.1f} s", seen))
        self.usual += load.seconds()
        if path := os.environ.get("REEL_GAPS"):
            with open(path, "w") as file:
                file.write(self.markdown())

    def markdown(self):
        rows = [HEAD, ["---"] * len(HEAD), *self.rows]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows) + (
            f"\nA file usually took {statistics.median(self.usual):.2f} s.\n" if self.usual else "")
