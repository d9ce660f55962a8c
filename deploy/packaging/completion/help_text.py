"""What a program's --help says of its options and commands, in the forms of CLI11, of argparse and
of mount.reelfs's own."""
import os
import re
import subprocess
from dataclasses import dataclass, field

# A line of a list: some indentation, what is described, and the description or its first line.
ENTRY = re.compile(r"^(?P<indent> {2,4})(?P<what>\S(?:.*?\S)?)(?: {2,}(?P<text>.*))?$")
CONTINUED = re.compile(r"^ {8,}(\S.*)$")
# A command with its arguments, which may be longer than their column.
COMMAND = re.compile(r"^(?P<name>[a-z][a-z-]*)"
                     r"(?P<arguments>(?: (?:\[.*\]|[A-Z.]+|[a-z]+\|[a-z|]+))*)"
                     r"(?: (?P<text>.*))?$")
CHOICES = re.compile(r"^([a-z]+(?:, [a-z]+)* or [a-z]+)(?: \(|$)")
OF_FILES = re.compile(r"\b(?:file|DIR|directory|PATH|PEM|GLOB|LUNs?|TOML|FILE)\b")


@dataclass
class Option:
    names: list
    text: str
    value: str = ""  # what it is called, "" where the option takes none
    choices: list = field(default_factory=list)

    @property
    def takes_file(self):
        named = OF_FILES.search(f"{self.value} {self.text}")
        return bool(self.value and not self.choices and named)


@dataclass
class Command:
    name: str
    text: str = ""
    options: list = field(default_factory=list)
    commands: list = field(default_factory=list)
    values: list = field(default_factory=list)  # words that an argument may be
    mount_options: list = field(default_factory=list)


def entries_of(text):
    """(section, what, description) of each line of the lists, descriptions on one line. What stands
    further in than its section's first line has it in its section's name."""
    found, section = [], ""
    for line in text.splitlines():
        entry, more = ENTRY.match(line), CONTINUED.match(line)
        if re.match(r"\S", line):
            section = line
        elif more and found:
            found[-1][2] = f"{found[-1][2]} {more[1]}".strip()
        elif entry and section and not section.lower().startswith("usage"):
            deeper = ", deeper" if len(entry["indent"]) > 2 else ""
            found.append([section + deeper, entry["what"], entry["text"] or ""])
    return found


def option_of(what, text):
    """`-c,--config TEXT=…`, `--names {a,b}`, `-n Excludes: -y`."""
    match = re.match(r"((?:-[\w-]+(?:, ?)?)+)\s*(.*)$", what)
    names = re.findall(r"-[\w-]+", match[1])
    value = "" if match[2].startswith("Excludes:") else match[2].split("=")[0].split(":")[0]
    return Option(names, text, value, choices_of(value, text))


def choices_of(value, text):
    if value.startswith("{"):
        return value.strip("{}").split(",")
    prose = CHOICES.match(text)
    return re.findall(r"[a-z]+", prose[1].replace(" or ", " ")) if value and prose else []


def mount_options_of(what, text):
    """`mdc=HOST[:PORT][,HOST...]`, `cache=auto|direct|page`, `ro`, or several of these."""
    for name in re.findall(r"(?:^|, )([a-z_]+=?[^ ,\[]*)", what):
        key, equals, value = name.partition("=")
        choices = value.split("|") if "|" in value else []
        yield Option([key], text, value if equals else "", choices)


def read_command(program, name, text="", path=(), seen=()):
    """The command of `program` that `path` names, and those below it."""
    shown = help_of(program, path)
    command = Command(name, text)
    if shown is None or shown in seen:  # nothing is said of it that its parent's help has not said
        return command
    for section, what, said in entries_of(shown):
        add_entry(command, section.lower(), what, said)
    if not command.options:  # all that there is is the line of the usage, as of umount.reelfs
        command.options = [Option([name], "") for name in re.findall(r"\[(-\w)\]", shown)]
    below = []
    for child in command.commands:
        deeper = read_command(program, child.name, child.text, (*path, child.name), (*seen, shown))
        if not deeper.commands:
            deeper.values = deeper.values or child.values
        below.append(deeper)
    command.commands = below
    return command


def add_entry(command, section, what, text):
    if what.startswith("-"):
        command.options.append(option_of(what, text))
    elif section.startswith("options"):
        command.mount_options += mount_options_of(what, text)
    elif section.startswith(("commands", "subcommands")) or section.endswith(", deeper"):
        if match := COMMAND.match(f"{what} {text}"):
            values = re.findall(r"\b[a-z]+\b", match["arguments"])
            command.commands.append(Command(match["name"], match["text"] or "", values=values))
    elif what.startswith("{"):
        command.values += what.strip("{}").split(",")
    elif re.fullmatch(r"[a-z-]+(, [a-z-]+)+", text):
        command.values += text.split(", ")


def help_of(program, path):
    """None where the program has no help of its own for it."""
    done = subprocess.run([program, *path, "--help"], capture_output=True, text=True, timeout=30,
                          check=False, env={**os.environ, "COLUMNS": "1000"})
    if done.returncode != 0 and not done.stderr.startswith("usage: "):
        return None
    return done.stdout or done.stderr
