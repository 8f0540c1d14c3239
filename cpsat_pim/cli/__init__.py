"""The command line (docs/cli.md); each command imports what takes time to load only when it runs."""

from cpsat_pim.cli.program import main

__all__ = ["main"]
