"""``lakelog completion``: the script with which a shell completes commands, options and table names."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(lakelog completion bash)"                in ~/.bashrc
    zsh:   eval "$(lakelog completion zsh)"                 in ~/.zshrc
    fish:  lakelog completion fish > ~/.config/fish/completions/lakelog.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is not None:
        click.echo(completion_class(context.find_root().command, {}, "lakelog", "_LAKELOG_COMPLETE").source())
