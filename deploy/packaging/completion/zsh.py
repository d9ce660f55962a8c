"""Completion for zsh: a function for each command, with _arguments."""

WITH_COMMANDS = """
  case $state in
    command)
      local -a commands=(
        {commands}
      )
      _describe -t commands command commands ;;
    rest)
      case $words[1] in
        {functions}
        *) _files ;;
      esac ;;
  esac
"""


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def described(text):
    """Within [ ] of a specification."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def value_of(option):
    if not option.value:
        return ""
    action = f"({' '.join(option.choices)})" if option.choices else \
        "_files" if option.takes_file else " "
    return f":{described(option.value.strip('{}').lower())}:{action}"


def specifications(option):
    others = f"({' '.join(option.names)})"
    before = "*" if "repeatable" in option.text else others
    for name in option.names:
        joined = "" if not option.value else "=" if name.startswith("--") else "+"
        yield quoted(f"{before}{name}{joined}[{described(option.text)}]{value_of(option)}")


def mount_options(command):
    """As _values has them, separated by commas."""
    listed = " ".join(quoted(f"{option.names[0]}[{described(option.text)}]{value_of(option)}")
                      for option in command.mount_options)
    return "'*-o+[options, separated by commas]:options:->options'", \
        f"\n  [[ $state != options ]] || _values -s , option {listed}\n"


def argument_of(command):
    if not command.values:
        return "'*:path:_files'"
    values = " ".join(command.values)
    return quoted(f'*:argument:_alternative "values:value:({values})" "files:file:_files"')


def function_of(command, name):
    lines = [line for option in command.options for line in specifications(option)]
    after = ""
    if command.commands:
        lines += ["'1: :->command'", "'*:: :->rest'"]
        after = WITH_COMMANDS.format(
            commands="\n        ".join(quoted(f"{child.name}:{child.text}")
                                       for child in command.commands),
            functions="\n        ".join(f"{child.name}) {name}_{child.name} ;;"
                                        for child in command.commands))
    else:
        lines.append(argument_of(command))
    if command.mount_options:
        line, after = mount_options(command)
        lines.insert(0, line)
    joined = " \\\n    ".join(lines)
    yield (f"{name}() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
           f"  _arguments -C -s -S \\\n    {joined}\n{after}}}\n")
    for child in command.commands:
        yield from function_of(child, f"{name}_{child.name}")


def zsh_completion(program):
    functions = list(function_of(program, f"_{program.name}"))
    head = f"#compdef {program.name}\n# zsh completion of {program.name}, made from its --help.\n\n"
    return (head + "\n".join([*functions[1:], functions[0]]) + f'\n_{program.name} "$@"\n')
