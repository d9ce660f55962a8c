#!/usr/bin/env python3
"""Metrics, their document and the alert rules fit together: docs/metrics.md lists what the code
writes and nothing else, every counter of `reeladm stat` is a metric, the rules ask for metrics that
there are and lead to chapters that there are, and promtool accepts them.

  tests/metrics_test.py
"""
import glob
import os
import re
import subprocess
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RULES = os.path.join(TOP, "deploy", "monitoring", "reelfs.rules.yml")
NAME = re.compile(r"\breelfs_[a-z_]+")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def written():
    names = set()
    for path in glob.glob(os.path.join(TOP, "mdc", "web", "*.cc")):
        if not path.endswith("_test.cc"):
            names |= set(re.findall(r'"(reelfs_[a-z_]+)"', read(path)))
    return names


def chapters():
    """As GitHub makes anchors of headings."""
    headings = re.findall(r"^#+ (.*)$", read("docs", "operations.md"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Metrics(unittest.TestCase):
    def test_the_document_lists_what_is_written(self):
        documented = set(re.findall(r"`(reelfs_[a-z_]+)`", read("docs", "metrics.md")))
        self.assertEqual(documented, written())

    def test_names_follow_the_conventions(self):
        for name in written():
            self.assertFalse(re.search(r"_(ms|us|mib|kib|percent)(_|$)", name), name)

    def test_every_counter_is_a_metric(self):
        table = read("mdc", "web", "counter_metrics.cc")
        counters = re.findall(r'add\("([a-z_.]+)"', read("mdc", "core", "core.cc") +
                              read("mdc", "serve", "volume_server.cc"))
        store = re.search(r"MetaDb::Counters\(\).*?\n}", read("mdc", "metadb", "meta_db.cc"),
                          re.DOTALL)[0]
        counters += [f"store.{name}" for name in re.findall(r'{"([a-z_]+)", ', store)]
        self.assertGreater(len(counters), 25)
        for counter in counters:
            self.assertIn(f'Known{{"{counter}"', table)

    def test_rules_ask_for_what_there_is(self):
        expressions = re.findall(r"expr: (.*)", read("deploy", "monitoring", "reelfs.rules.yml"))
        for name in {name for text in expressions for name in NAME.findall(text)}:
            self.assertIn(name, written())
        kinds = set(re.findall(r"ALARM_([A-Z_]+) = [1-9]", read("proto", "admin.proto")))
        asked = {kind for text in expressions
                 for group in re.findall(r'reelfs_alarms{kind=~?"([a-z_|]+)"}', text)
                 for kind in group.split("|")}
        self.assertEqual(asked, {kind.lower() for kind in kinds}, "an alarm that wakes nobody")

    def test_rules_lead_to_chapters(self):
        places = re.findall(r"do: operations\.md#(.*)", read("deploy", "monitoring",
                                                             "reelfs.rules.yml"))
        self.assertGreater(len(places), 10)
        for place in places:
            self.assertIn(place, chapters())

    def test_promtool_accepts_the_rules(self):
        done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
