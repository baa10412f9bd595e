"""Whether a line that a page shows is a command that there is: its name, its options, its arguments."""

import typer

from datamarket_gym.cli.app import app
from repository import tool_named

blocks = tool_named("docs_blocks")
MORE = "..."  # and so on: what is required may be missing


def check_command(line):
    """Raise where the command line knows no such command."""
    program, *words = blocks.words_of(line)
    assert program.removeprefix(".venv/bin/") == "datamarket"
    _check(
        typer.main.get_command(app),
        [word for word in words if word != MORE],
        MORE in words,
        "datamarket",
    )


def _check(command, words, is_part, name):
    context = command.context_class(command, info_name=name)
    try:
        given, left, _ = command.make_parser(context).parse_args(list(words))
    except Exception as error:
        if (
            is_part and type(error).__name__ == "BadOptionUsage"
        ):  # an option that is named without its value
            return None
        raise
    if hasattr(command, "resolve_command") and left:
        name, inner, rest = command.resolve_command(context, left)
        return _check(inner, rest, is_part, name)
    assert not left, f"{name} takes no {left}"
    for param in command.get_params(context):
        value = given.get(param.name)
        if value is None or "UNSET" in repr(value):
            assert is_part or not param.required, f"{name} needs {param.name}"
    return None
