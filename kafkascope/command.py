"""What holds for the options and arguments of every command."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command that refuses empty values: those of a variable that nobody set would be ignored, or be a path."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the command's."""
        rest = super().parse_args(ctx, args)
        for parameter in () if ctx.resilient_parsing else self.params:  # by a shell that completes a line
            value = ctx.params.get(parameter.name)
            if "" in (value if isinstance(value, (list, tuple)) else (value,)):
                raise typer.BadParameter(f"it is empty; give {parameter.metavar}", ctx, parameter)
        return rest
