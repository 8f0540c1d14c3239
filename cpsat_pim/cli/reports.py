"""`report`: draw results as an HTML page; other commands write pages and timelines through this module too."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command
from cpsat_pim.cli.output import OK, check_not_overwritten, check_outputs, read_input, write_file

if TYPE_CHECKING:
    from cpsat_pim.evaluate.verify import MappedLayer


def add_commands(commands: Any) -> None:
    """Add the command `report` to the parser."""
    text = "draw a result that `--json` wrote, or two compared, as one HTML page"
    parser = add_command(commands, "report", text, report_results)
    parser.add_argument("result", metavar="RESULT.json", help="written by `run --json` or `map --json`")
    parser.add_argument("other", metavar="OTHER.json", nargs="?", help="another result to compare with")
    parser.add_argument("-o", "--output", metavar="FILE.html", default="report.html", help="(%(default)s)")


def report_results(arguments: argparse.Namespace) -> int:
    """Run `report`: write one page of one result, or of two results compared."""
    from cpsat_pim.base.reading import read_json

    check_page(arguments.output)
    check_not_overwritten(arguments.output, arguments.result, arguments.other)
    paths = [path for path in (arguments.result, arguments.other) if path is not None]
    documents = [(path, read_input(partial(read_json, path))) for path in paths]
    write_file(arguments.output, page_writer(documents))
    return OK


def check_page(path: str | None) -> None:
    """Check that a page can be drawn and written, if one is requested."""
    from cpsat_pim.report.html import check_plotting

    check_outputs(path)
    if path is not None:
        read_input(check_plotting)


def page_writer(documents: Sequence[tuple[str, dict[str, Any]]]) -> Callable[[str], None]:
    """Return a function that writes the page of results, given as pairs of name and document."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import write_text
        from cpsat_pim.report.html import render_report

        write_text(render_report(documents), path)

    return write


def csv_writer(document: dict[str, Any]) -> Callable[[str], None]:
    """Return a function that writes a document's layers as comma-separated values."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import replacing
        from cpsat_pim.report.csvfile import document_rows, write_csv

        with replacing(path) as file:
            write_csv(document_rows(document), file)

    return write


def timeline_writer(cases: Sequence["MappedLayer"]) -> Callable[[str], None]:
    """Return a function that writes the trace of mapped layers, if there are any."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import write_json
        from cpsat_pim.report.timeline import build_timeline

        if cases:
            write_json(build_timeline(cases), path, indent=None)

    return write
