"""Parse the command line: the parser, the types of arguments, and the arguments that several commands share."""

import argparse
import csv
import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cpsat_pim.cli.output import PROGRAM, InputError

if TYPE_CHECKING:
    from cpsat_pim.mapping import BankCounts, Banks

EPILOG = """exit codes: 0 every layer has a mapping, proven optimal or with its gap; 1 some layer has none, or a job
of a sweep failed; 2 bad input; 3 prediction and simulation disagree; 130 interrupted"""

#: Defaults: seconds of one solve, and of several solves together.
TIME_LIMIT, NO_LIMIT = 60.0, math.inf

_T = TypeVar("_T")


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise `InputError` with the command's name and the message."""
        command = self.prog.removeprefix(PROGRAM).strip()
        raise InputError(f"{command}: {message}" if command else message)


def add_command(commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], int]) -> Any:
    """Add a command to the parser and return the command's own parser."""
    parser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EPILOG, allow_abbrev=False
    )
    parser.set_defaults(command=command)
    return parser


# --- Arguments of several commands -----------------------------------------------------------------------------------


def add_arch(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add `--arch`, the machine. Without a default the command can see whether the user gave one."""
    text = "a name (see `archs`) or a .yaml file (default)"
    parser.add_argument("--arch", metavar="NAME|FILE", default=default, help=text)


def add_bytes(parser: argparse.ArgumentParser) -> None:
    """Add `--bytes`, the width of elements."""
    text = "bytes per element: one number, or four for I, W, O, partial sums (the network's, else the machine's)"
    parser.add_argument("--bytes", metavar="N|I,W,O,PSUM", type=widths, help=text)


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """Add `--constraints`, the file of constraints that every mapping must satisfy."""
    text = "only mappings that satisfy these constraints (docs/files.md)"
    parser.add_argument("--constraints", metavar="FILE.yaml", help=text)
    text = "which tensors share a bank of the node, as the constraint `banks`: I|W|O, IW|O, IO|W, I|WO or IWO"
    parser.add_argument("--banks", metavar="PARTS", type=bank_parts, help=text)
    text = "banks of I, W and O (one for each part), or choose: the solver decides how many of the node's each has"
    parser.add_argument("--bank-counts", metavar="choose|I,W,O", type=bank_counts, help=text)


def bank_parts(text: str) -> "Banks":
    """Parse which tensors share a bank."""
    from cpsat_pim.mapping import BANKS

    if text not in BANKS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(BANKS)} (got {text!r})")
    return BANKS[text]


def bank_counts(text: str) -> "dict[str, BankCounts | None]":
    """Parse how many banks each tensor has, as the constraint `bank_counts`."""
    from cpsat_pim.mapping.constraints import CHOOSE, choice_of_bank_counts, fixed_bank_counts

    given = text if text == CHOOSE else tuple(int(n) if n.isdecimal() else n for n in text.split(","))
    if problem := choice_of_bank_counts.broken_by(given):
        raise argparse.ArgumentTypeError(f"{problem} (got {text!r})")
    return {"bank_counts": fixed_bank_counts(given)}


def add_layers(parser: argparse.ArgumentParser) -> None:
    """Add `--layers`, the names of the layers to work on."""
    parser.add_argument("--layers", metavar="A,B", type=names, help="only the layers of these names")


def add_mapped_file(parser: argparse.ArgumentParser) -> None:
    """Add the file of mappings to work on, and `--layer`, which selects one of them."""
    parser.add_argument("file", metavar="FILE", help="results of `--json`, a mapping file (.yaml), or a reproducer")
    parser.add_argument("--layer", metavar="NAME", help="only the layer of this name")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a model (ONNX, PyTorch) is imported."""
    add = parser.add_argument
    text = "what to do about a model's operators that cannot be mapped (%(default)s)"
    add(
        "--bind",
        metavar="NAME=N",
        type=binding,
        action="append",
        default=[],
        help="a size that a model leaves open, or a parameter of a network",
    )
    add("--unsupported", choices=("error", "skip"), default="error", help=text)


def add_network(parser: argparse.ArgumentParser, metavar: str) -> None:
    """Add the network or shape whose layers are mapped."""
    text = "a name (see `networks`), a .yaml file, a model that `import` takes, or a shape: R=3,S=3,P=56"
    parser.add_argument("network", metavar=metavar, help=text)


def add_objective(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the objective to minimize. Without a default the command can see whether the user gave one."""
    add = parser.add_argument
    kinds = ("latency", "energy", "blended", "edp")
    add("--objective", choices=kinds, default=default, help="what to minimize (energy)")
    add("--alpha", metavar="X", type=weight, help="blended: weight of a cycle (1)")
    add("--beta", metavar="X", type=weight, help="blended: weight of a nanojoule (1)")


def add_seed(parser: argparse.ArgumentParser, of: str = "of the solver", metavar: str = "N") -> None:
    """Add `--seed`, the seed of random choices."""
    parser.add_argument("--seed", metavar=metavar, type=seed, default=0, help=f"{of} (%(default)s)")


def add_time_limit(parser: argparse.ArgumentParser, per: str, default: float | None = TIME_LIMIT) -> None:
    """Add `--time-limit`, seconds of one solve. Without a default the command can see whether the user gave one."""
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=default, help=f"{per} ({TIME_LIMIT:g})")


def add_total_time(parser: argparse.ArgumentParser, per: str) -> None:
    """Add `--total-time`, seconds of several solves together."""
    parser.add_argument("--total-time", metavar="S", type=seconds, default=NO_LIMIT, help=f"{per} (no limit)")


def add_csv(parser: argparse.ArgumentParser, what: str = "a row per layer with all figures") -> None:
    """Add `--csv`, the file for the table."""
    parser.add_argument("--csv", metavar="FILE", help=f"also write {what} as comma-separated values")


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """Add `--timeline`, the file for the simulated pipeline."""
    parser.add_argument("--timeline", metavar="FILE.json", help="write the simulated pipeline as a trace for Perfetto")


# --- Types -----------------------------------------------------------------------------------------------------------


def checked(convert: Callable[[str], _T], holds: Callable[[_T], bool], rule: str) -> Callable[[str], _T]:
    """Return an argparse type that converts text and rejects values for which `holds` is false, with `rule`
    as message.
    """

    def parse(text: str) -> _T:
        try:
            value = convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{rule} (got {text!r})") from None
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{rule} (got {text!r})")
        return value

    return parse


weight = checked(float, lambda x: 0 <= x <= 1e9, "must be a number from 0 to 1e9")
seconds = checked(float, lambda x: 0 < x <= 1e7, "must be a positive number of at most 1e7")
jobs = checked(int, lambda n: 1 <= n <= 1024, "must be an integer from 1 to 1024")
seed = checked(int, lambda n: 0 <= n < 2**31, "must be an integer from 0 to 2147483647")
share = checked(
    lambda text: float(text.removesuffix("%")) / (100 if text.endswith("%") else 1),
    lambda x: 0 <= x < 1,
    "must be a share from 0 to below 1, like 0.01 or 1%",
)
row_bits = checked(int, lambda n: 0 <= n <= 40, "must be an integer from 0 to 40")
gap = checked(int, lambda n: 0 <= n < 2**20, "must be an integer from 0 to 1048575")


def names(text: str) -> list[str]:
    """Split a list of names such as `conv1, conv2`; a name with a comma stands in double quotes."""
    try:
        return [name.strip() for name in next(csv.reader([text], skipinitialspace=True))] or [""]
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"must be names between commas ({error})") from error


def binding(text: str) -> tuple[str, int]:
    """Read a parameter, the size of an open dim or the value of a scalar input, such as `batch=1`."""
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch(r"0|[1-9][0-9]{0,8}", size):
        raise argparse.ArgumentTypeError(f"must be a name and a number below 10^9, like batch=1 (got {text!r})")
    return name, int(size)


def widths(text: str) -> tuple[int | Fraction, ...]:
    """Read element widths such as `2` or `2,0.5,2,4`: bytes, of whole bits."""
    parts = text.split(",")
    decimals = all(re.fullmatch(r"\s*[0-9]{1,2}(\.[0-9]{1,3})?\s*", part) for part in parts)
    numbers = tuple(Fraction(part.strip()) for part in parts) if decimals else ()
    if len(numbers) not in (1, 4) or not all(0 < n <= 64 and 8 * n % 1 == 0 for n in numbers):
        rule = "must be one or four numbers of bytes up to 64, of whole bits, like 2 or 2,0.5,2,4"
        raise argparse.ArgumentTypeError(f"{rule} (got {text!r})")
    return numbers * 4 if len(numbers) == 1 else numbers


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
