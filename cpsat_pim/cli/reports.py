"""`report`: show results as an HTML page, a table or charts; other commands write pages and timelines through this
module too.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command
from cpsat_pim.cli.output import OK, InputError, check_not_overwritten, check_outputs, note, read_input, write_file

if TYPE_CHECKING:
    from cpsat_pim.evaluate.verify import MappedLayer

    #: Results as pairs of file name and document.
    Documents = Sequence[tuple[str, dict[str, Any]]]


def add_commands(commands: Any) -> None:
    """Add the command `report` to the parser."""
    text = "show a result that `--json` wrote, or two compared: an HTML page, a table, or charts for papers"
    parser = add_command(commands, "report", text, report_results)
    parser.add_argument("result", metavar="RESULT.json", help="written by `run --json` or `map --json`")
    parser.add_argument("other", metavar="OTHER.json", nargs="?", help="another result to compare with")
    text = "a page (.html), a row per layer (.csv), charts (.pdf, or a folder/ of SVG files) (%(default)s)"
    parser.add_argument("-o", "--output", metavar="FILE|FOLDER/", default="report.html", help=text)


def report_results(arguments: argparse.Namespace) -> int:
    """Run `report`: write a page, a table or charts of one result, or of two results compared."""
    from cpsat_pim.base.reading import read_json

    target: str = arguments.output
    writer = _writer_of(target)
    if not is_folder(target):
        check_outputs(target)
    check_not_overwritten(target, arguments.result, arguments.other)
    paths = [path for path in (arguments.result, arguments.other) if path is not None]
    documents = [(path, read_input(partial(read_json, path))) for path in paths]
    write_file(target, writer(documents))
    for line in _unlike_layers(*(document for _, document in documents)) if arguments.other else ():
        note(f"warning: {line}")
    return OK


def _unlike_layers(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Yield which layers two results name alike, although their shapes differ or the widths of their elements."""
    shapes = {layer["name"]: layer.get("shape") or {} for layer in other.get("layers", ())}
    layers = {layer["name"]: layer.get("shape") or {} for layer in one.get("layers", ())}
    for has_widths, text in (
        (False, "of the same name, but of another shape in the other result"),
        (True, "with elements of other widths in the other result"),
    ):
        found = [
            name
            for name, shape in layers.items()
            if name in shapes and _part(shape, has_widths) != _part(shapes[name], has_widths)
        ]
        if found:
            yield f"{text}: {'all layers' if 1 < len(found) == len(layers) else ', '.join(found)}"


def _part(shape: dict[str, Any], has_widths: bool) -> dict[str, Any]:
    """Return the widths of a shape's elements, or all else of the shape."""
    return {key: value for key, value in shape.items() if key.endswith("_bytes") == has_widths}


def is_folder(target: str) -> bool:
    """Return whether an output is a folder: its path ends in a slash, or it is one already."""
    from pathlib import Path

    return target.endswith("/") or Path(target).is_dir()


def _writer_of(target: str) -> "Callable[[Documents], Callable[[str], None]]":
    """Return what writes results in the form that the target's name implies; check that its package is installed."""
    from cpsat_pim.report.figures import check_drawing

    if target.endswith((".html", ".htm")):
        check_page(target)
        return page_writer
    if target.endswith(".csv"):
        return table_writer
    if target.endswith(".pdf") or is_folder(target):
        read_input(check_drawing)
        return charts_writer
    raise InputError(f"{target}: must end in .html, .csv, .pdf or /")


def table_writer(documents: "Documents") -> Callable[[str], None]:
    """Return a function that writes the layers of results as comma-separated values."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import replacing
        from cpsat_pim.report.csvfile import document_rows, write_csv
        from cpsat_pim.report.jsonfile import build_result

        for source, document in documents:
            build_result(source, document)  # reports what is missing or malformed
        with replacing(path) as file:
            write_csv([row for _, document in documents for row in document_rows(document)], file)

    return write


def charts_writer(documents: "Documents") -> Callable[[str], None]:
    """Return a function that writes the charts of results as one PDF, or as SVG files in a folder."""

    def write(path: str) -> None:
        from cpsat_pim.report.charts import result_charts
        from cpsat_pim.report.figures import write_pdf, write_svgs

        charts = result_charts(documents)
        if path.endswith(".pdf"):
            write_pdf(charts, path)
        else:
            for written in write_svgs(charts, path):
                print(written)

    return write


def check_page(path: str | None) -> None:
    """Check that a page can be drawn and written, if one is requested; only then is what draws it imported."""
    check_outputs(path)
    if path is not None:
        from cpsat_pim.report.html import check_plotting

        read_input(check_plotting)


def page_writer(documents: Sequence[tuple[str, dict[str, Any]]]) -> Callable[[str], None]:
    """Return a function that writes the page of results, given as pairs of name and document."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import write_text
        from cpsat_pim.report.html import render_report

        write_text(render_report(documents), path)

    return write


def csv_writer(document: dict[str, Any]) -> Callable[[str], None]:
    """Return a function that writes the layers of a run as comma-separated values."""
    return table_writer([("this run", document)])


def timeline_writer(cases: Sequence["MappedLayer"]) -> Callable[[str], None]:
    """Return a function that writes the trace of mapped layers, if there are any."""

    def write(path: str) -> None:
        from cpsat_pim.base.files import write_json
        from cpsat_pim.report.timeline import build_timeline

        if cases:
            write_json(build_timeline(cases), path, indent=None)

    return write
