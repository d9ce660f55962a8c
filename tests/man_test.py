#!/usr/bin/env python3
"""The manual pages and the programs' --help name the same options; those of configuration files,
the keys that the programs read; and what is said of reeladm's commands is of those that there are.

Usage: man_test.py BIN_DIRECTORY, from anywhere. Exit status 1, and a line for each difference.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGES = os.path.join(TOP, "docs", "man")
# Which sources read a configuration file, and how they name a key.
READERS = {"reelfs.toml.5.scd": ("volume/base/shared_config.cc",),
           "reelfs-mdc.toml.5.scd": ("mdc/daemon/config.cc",),
           "reelfs-client.toml.5.scd": ("client/mount/mount_options.cc",
                                        "tools/admin/admin_config.cc"),
           "reelfs-volume.toml.5.scd": ("tools/lib/volume_toml.cc",)}
KEY = re.compile(r'(?:(?:table|reader)\.(?!Fail|Where)\w+\(|Strings\(table, )"(\w+)"')
SUBCOMMANDS = {"reel-label": ("write", "list", "clear"),
               "reel-bench": ("compare", "frames", "io", "meta", "qos", "sweep"),
               "reeladm": ("config", "config check", "config show", "doctor", "pki", "pki init",
                           "pki issue", "pki list", "pki renew", "pki revoke", "setup"),
               "reelfs-lab": ("up", "status", "partition", "exec", "drill", "logs")}
# Other names of commands of reeladm, whose JSON is that of the command.
ALIASES = {"sessions", "repfl", "volume"}
# Programs that are not built.
SCRIPTS = {"reelfs-lab": os.path.join(TOP, "deploy", "lab", "lab")}
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
    path = SCRIPTS.get(program, os.path.join(programs, program))
    with open(os.path.join(PAGES, page)) as file:
        text = re.sub(r"(?s)^# EXAMPLES.*?(?=^# )", "", file.read(), flags=re.M)
    told = options_of(text.replace("*", " "))
    known = set().union(*(options_of(help_of(path, *command)) for command in
                          [(), *(name.split() for name in SUBCOMMANDS.get(program, ()))]))
    for option in sorted(told - known):
        yield f"{page}: names {option}, which {program} --help does not"
    for option in sorted(known - told):
        yield f"{page}: lacks {option}, which {program} --help names"


def commands_of_reeladm(programs):
    """What its table has, by name, other names included."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as nothing:
        words = [os.path.join(programs, "reeladm"), "--config", nothing.name, "--json", "help"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    listed = json.loads(done.stdout)["commands"]
    return {name for entry in listed for name in [entry["command"].split()[0], *entry["aliases"]]}


def differences_of_commands(programs):
    """Each is described in the manual page, and has a schema; and no document names another."""
    commands = commands_of_reeladm(programs)
    with open(os.path.join(PAGES, "reeladm.8.scd")) as file:
        text = file.read()
    described = set(re.findall(r"(?m)^(?:\*[^\n]*, )?\*([a-z-]+)[* ]", text))
    described |= set(re.findall(r"Also \*([a-z-]+)\*", text))
    with open(os.path.join(TOP, "docs", "schema", "reeladm.json")) as file:
        schemas = {name.split()[0] for name in json.load(file)["$defs"]}
    for command in sorted(commands - described):
        yield f"reeladm.8.scd: lacks the command {command}"
    for command in sorted(commands - ALIASES - schemas):
        yield f"docs/schema/reeladm.json: lacks the command {command}"
    known = commands | {name.split()[0] for name in SUBCOMMANDS["reeladm"]}
    with open(os.path.join(TOP, "docs", "cvadmin.md")) as file:
        named = set(re.findall(r"`reeladm ([a-z-]+)", file.read()))
    for command in sorted(named - known):
        yield f"cvadmin.md: names reeladm {command}, which there is not"


def differences_of_keys(page):
    with open(os.path.join(PAGES, page)) as file:
        text = file.read()
    told = {key for line in re.findall(r"(?m)^(\*\w+\*(?:, \*\w+\*)*)$", text)
            for key in re.findall(r"\w+", line)}
    told |= {table.split(".")[-1] for table in re.findall(r"\[\[([\w.]+)\]\]", text)}
    read = set()
    for source in READERS[page]:
        with open(os.path.join(TOP, source)) as file:
            read |= set(KEY.findall(file.read()))
    for key in sorted(told - read):
        yield f"{page}: names {key}, which {' and '.join(READERS[page])} do not read"
    for key in sorted(read - told):
        yield f"{page}: lacks {key}, which {' or '.join(READERS[page])} reads"


def main():
    programs = sys.argv[1]
    pages = sorted(name for name in os.listdir(PAGES) if re.search(r"\.[18]\.scd$", name))
    found = [line for page in pages for line in differences(programs, page)]
    found += [line for page in READERS for line in differences_of_keys(page)]
    found += differences_of_commands(programs)
    print("\n".join(found) or f"{len(pages)} pages agree with --help, {len(READERS)} with the keys")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
