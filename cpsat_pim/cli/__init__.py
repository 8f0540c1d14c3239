"""The command line (docs/cli.md). Whatever takes time to import is imported by the command that needs it."""

from cpsat_pim.cli.program import main

__all__ = ["main"]
