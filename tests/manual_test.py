"""The documents can be followed: their links, and the manual's tasks as e2e/manual.py reads them.
"""
import os
import re
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(TOP, "docs")
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))

import manual  # noqa: E402

HOSTS = {"your machine", "each host", "each controller", "each workstation", "each standby",
         "the active controller", "mdc1", "mdc2", "ws1", "ws2"}


def anchors(path):
    """As GitHub makes them of headings."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"(?m)^#+ (.*)$", file.read())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", sorted(name for name in os.listdir(DOCS) if name.endswith(".md")))
def test_each_link_leads_to_a_heading(name):
    path = os.path.join(DOCS, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lost = []
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        there = os.path.normpath(os.path.join(DOCS, target)) if target else path
        if not os.path.exists(there) or (heading and heading not in anchors(there)):
            lost.append(f"{target}#{heading}")
    assert not lost, f"{name}: {lost}"


@pytest.mark.parametrize("title", manual.TASKS)
def test_each_step_of_a_task_says_where(title):
    steps = manual.steps(title)
    assert {step.where for step in steps} <= HOSTS
    assert all(step.script.strip() for step in steps)


def test_a_block_without_a_place_is_an_error(tmp_path):
    path = tmp_path / "manual.md"
    path.write_text("## One\n\nOn mdc1:\n\n```\ntrue\n```\n\n```toml\na = 1\n```\n\n"
                    "1. On each\n   host, at last:\n\n   ```\n   a\n     b\n   ```\n"
                    "## Two\n\nDo:\n\n```\na\n```\n")
    assert manual.steps("One", path) == [("mdc1", "true\n"), ("each host", "a\n  b\n")]
    with pytest.raises(AssertionError, match="does not say on which host"):
        manual.steps("Two", path)
