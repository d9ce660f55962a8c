#!/usr/bin/env python3
"""Makes the completion of a program for bash and zsh from what its --help says, so that it cannot
name what is no longer there.

Usage: generate.py PROGRAM NAME DIRECTORY; writes DIRECTORY/bash/NAME and DIRECTORY/zsh/_NAME.
"""
import os
import sys

sys.dont_write_bytecode = True

from bash import bash_completion  # noqa: E402
from help_text import read_command  # noqa: E402
from zsh import zsh_completion  # noqa: E402


def main():
    program, name, directory = sys.argv[1:]
    command = read_command(program, name)
    if not command.options:
        sys.exit(f"generate.py: {program} --help names no option; is it a program of ReelFS?")
    for path, text in ((f"bash/{name}", bash_completion(command)),
                       (f"zsh/_{name}", zsh_completion(command))):
        path = os.path.join(directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
