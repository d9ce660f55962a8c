"""Completion for bash, by the functions of the package bash-completion."""
import shlex

HEAD = """\
# bash completion of {name}, made from its --help.

_{function}() {{
  local cur prev words cword
  _init_completion -n = || return

  local path="" word options="" choices=""
"""
PATHS = """\
  for word in "${{words[@]:1:cword-1}}"; do
    case "$path $word" in
      {paths}) path="$path $word" ;;
    esac
  done
"""
TAIL = """
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  else
    [[ -z $choices ]] || mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
    [[ ${{#COMPREPLY[@]}} -gt 0 ]] || _filedir
  fi
}} &&
complete -F _{function} {name}
"""
# Of a list, the last one is completed; bash takes '=' for the end of a word.
MOUNT_OPTIONS = """
  if [[ $prev == -o ]]; then
    local last=${{cur##*,}} before="" kept
    if [[ $last == {files}=* ]]; then
      before=${{last%%=*}}=
      mapfile -t COMPREPLY < <(compgen -f -- "${{last#*=}}")
    else
      mapfile -t COMPREPLY < <(compgen -W {all} -- "$last")
    fi
    kept=${{cur%"$last"}}
    [[ ${{#COMPREPLY[@]}} -eq 0 ]] || COMPREPLY=("${{COMPREPLY[@]/#/$kept$before}}")
    if [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
      COMPREPLY=("${{COMPREPLY[@]#"${{cur%=*}}="}}")
    fi
    compopt -o nospace
    return
  fi
"""


def commands_of(command, path=""):
    """(path, command) of a command and all below it."""
    yield path, command
    for child in command.commands:
        yield from commands_of(child, f"{path} {child.name}")


def one_of(path, option):
    return " | ".join(f'"{path} {name}"' for name in option.names)


def completion_of_value(option):
    if option.choices:
        words = shlex.quote(" ".join(option.choices))
        return f'mapfile -t COMPREPLY < <(compgen -W {words} -- "$cur"); return'
    return "_filedir; return" if option.takes_file else "return"


def mount_options(command):
    words = [f"{option.names[0]}={choice}" for option in command.mount_options
             for choice in option.choices or [""] if option.value]
    words += [option.names[0] for option in command.mount_options if not option.value]
    files = "|".join(option.names[0] for option in command.mount_options if option.takes_file)
    return MOUNT_OPTIONS.format(all=shlex.quote(" ".join(words)), files=f"@({files})")


def bash_completion(program):
    every = list(commands_of(program))
    function = program.name.replace("-", "_").replace(".", "_")
    text = HEAD.format(name=program.name, function=function)
    if program.commands:
        text += PATHS.format(paths=" | ".join(f'"{path}"' for path, _ in every if path))
    text += '  case "$path" in\n'
    for path, command in every:
        names = [name for option in command.options for name in option.names]
        options = " ".join(names + ["-o"] * bool(command.mount_options))
        choices = " ".join([child.name for child in command.commands] or command.values)
        text += f'    "{path}") options={shlex.quote(options)} choices={shlex.quote(choices)} ;;\n'
    text += '  esac\n'
    values = [(path, option) for path, command in every for option in command.options
              if option.value]
    if values:
        text += '  case "$path $prev" in\n'
        for path, option in values:
            text += f"    {one_of(path, option)}) {completion_of_value(option)} ;;\n"
        text += '  esac\n'
    if program.mount_options:
        text += mount_options(program)
    return text + TAIL.format(name=program.name, function=function)
