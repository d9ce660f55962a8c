#!/usr/bin/env python3
"""The manual pages and the programs' --help name the same options.

Usage: man_test.py BIN_DIRECTORY, from anywhere. Exit status 1, and a line for each difference.
"""
import os
import re
import subprocess
import sys

PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "man")
SUBCOMMANDS = {"reel-label": ("write", "list", "clear"), "reel-bench": ("io", "meta"),
               "reeladm": ("pki", "pki init", "pki issue")}
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z])(?![\w])")
GROUPED = re.compile(r"\[\*?-([a-zA-Z]{2,})\*?\]")


def options_of(text):
    found = set(OPTION.findall(text))
    for letters in GROUPED.findall(text):
        found |= {f"-{letter}" for letter in letters}
    return found


def help_of(program, *subcommand):
    done = subprocess.run([program, *subcommand, "--help"], capture_output=True, text=True,
                          timeout=30, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} --help: exit status {done.returncode}")
    return done.stdout


def differences(programs, page):
    program = re.sub(r"\.\d\.scd$", "", page)
    path = os.path.join(programs, program)
    with open(os.path.join(PAGES, page)) as file:
        text = re.sub(r"(?s)^# EXAMPLES.*?(?=^# )", "", file.read(), flags=re.M)
    told = options_of(text.replace("*", " "))
    known = set().union(*(options_of(help_of(path, *command)) for command in
                          [(), *(name.split() for name in SUBCOMMANDS.get(program, ()))]))
    for option in sorted(told - known):
        yield f"{page}: names {option}, which {program} --help does not"
    for option in sorted(known - told):
        yield f"{page}: lacks {option}, which {program} --help names"


def main():
    programs = sys.argv[1]
    pages = sorted(name for name in os.listdir(PAGES) if re.search(r"\.[18]\.scd$", name))
    found = [line for page in pages for line in differences(programs, page)]
    print("\n".join(found) or f"{len(pages)} pages agree with --help")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
