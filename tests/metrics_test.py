#!/usr/bin/env python3
"""Metrics, their document and the alert rules fit together: docs/metrics.md lists what the code
writes and nothing else, every counter of `reeladm stat` is a metric, rules and dashboard ask for
metrics that there are, the rules lead to chapters that there are, and promtool accepts them.

  tests/metrics_test.py
"""
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RULES = os.path.join(TOP, "deploy", "monitoring", "reelfs.rules.yml")
NAME = re.compile(r"\breelfs_[a-z_]+")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def written():
    names = set()
    for room in ("mdc", "client", "proto"):
        for path in glob.glob(os.path.join(TOP, room, "web", "*.cc")):
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
        expressions = re.findall(r"expr: (.*?)\n +(?:for|labels):", read(
            "deploy", "monitoring", "reelfs.rules.yml"), re.DOTALL)
        for name in {name for text in expressions for name in NAME.findall(text)}:
            self.assertIn(name, written())
        kinds = set(re.findall(r"ALARM_([A-Z_]+) = [1-9]", read("proto", "admin.proto")))
        asked = {kind for text in expressions
                 for group in re.findall(r'reelfs_alarms{kind=~?"([a-z_|]+)"}', text)
                 for kind in group.split("|")}
        self.assertEqual(asked, {kind.lower() for kind in kinds}, "an alarm that wakes nobody")

    def test_the_dashboard_shows_what_there_is(self):
        panels = json.loads(read("deploy", "monitoring", "reelfs.dashboard.json"))["panels"]
        shown = [target["expr"] for panel in panels for target in panel.get("targets", [])]
        self.assertGreater(len(shown), 20)
        for name in {name for text in shown for name in NAME.findall(text)}:
            self.assertIn(re.sub(r"_(bucket|count|sum)$", "", name), written())
        rules = [{"record": f"shown:{number}", "expr": text.replace("$volume", "reel")
                  .replace("$__rate_interval", "5m")} for number, text in enumerate(shown)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:  # (JSON is YAML)
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            self.promtool_accepts(file.name)

    def test_rules_lead_to_chapters(self):
        places = re.findall(r"do: operations\.md#(.*)", read("deploy", "monitoring",
                                                             "reelfs.rules.yml"))
        self.assertGreater(len(places), 10)
        for place in places:
            self.assertIn(place, chapters())

    def test_promtool_accepts_the_rules(self):
        self.promtool_accepts(RULES)

    def test_rules_make_the_alerts_that_they_should(self):
        self.promtool_accepts(os.path.join(TOP, "tests", "alerts_test.yml"), "test")

    def promtool_accepts(self, path, verb="check"):
        done = subprocess.run(["promtool", verb, "rules", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
