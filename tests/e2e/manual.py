"""The manual, docs/operations.md, as whoever follows it reads it: the commands of a section, and
the host on which each block is to be run, which the text above it says ("On each host:")."""
import os
import re
from typing import NamedTuple

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/operations.md")
# The tasks that are followed on machines (test_machine_tasks.py).
INSTALL, UNINSTALL = "Install a cluster: the first thirty minutes", "Uninstall"
LIST, RENEW = "List certificates with their dates", "Renew a certificate without a restart"
REVOKE, UPGRADE = "Revoke a certificate", "Upgrade"
CONTROLLER, WORKSTATION = "Replace a controller", "Replace a workstation"
ARRAY, POWER_CUT = "Replace the array of a LUN", "After a power cut"
TASKS = (INSTALL, UNINSTALL, LIST, RENEW, REVOKE, UPGRADE, CONTROLLER, WORKSTATION, ARRAY,
         POWER_CUT)
# The end of a paragraph, before a block. What comes after a comma is for people.
WHERE = re.compile(r"\bOn ([a-z0-9 ]+)(?:, [^:.]*)?:$")


class Step(NamedTuple):
    where: str   # as it stands there: "mdc1", "each workstation"
    script: str


def section(title, path=PATH):
    """The lines below a heading of the second level."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.search(rf"(?ms)^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text)
    assert found, f"{path}: no section '{title}'"
    return found[1].splitlines()


def steps(title, path=PATH):
    """Blocks of commands, in their order. Blocks in a language (```toml) are no commands; one that
    does not say where it is to be run is an error."""
    found, block = [], None
    paragraph, ended = "", False  # the one above, and whether a blank line came after it
    for line in section(title, path):
        words = line.strip()
        if block is not None and words != "```":
            block.append(line[indent:])
        elif block is not None:
            if not language:
                found.append(Step(where[1], "\n".join(block) + "\n"))
            block, paragraph = None, ""
        elif words.startswith("```"):
            block, indent, language = [], line.index("`"), words[3:]
            where = WHERE.search(paragraph)
            assert language or where, f"{title}: '{paragraph[-60:]}' does not say on which host"
        elif words:
            paragraph, ended = words if ended else f"{paragraph} {words}", False
        else:
            ended = True
    assert found, f"{title}: nothing to run"
    return found
