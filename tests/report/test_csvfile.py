"""Results as comma-separated values."""

import csv
import io
from typing import Any

from cpsat_pim.report.csvfile import document_rows, write_csv
from tests.report.results import UNMAPPED, document


def read_back(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return rows as another program reads them."""
    file = io.StringIO()
    write_csv(rows, file)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_row_has_every_figure_of_the_layer() -> None:
    """A row per layer, though both are equal; parts of the energy add up."""
    data = document()
    data["arch"]["clock"] = 1_000_000
    rows = read_back(document_rows(data))
    assert [(row["layer"], row["count"], row["P"], row["macs"]) for row in rows] == [
        ("a", "1", "4", "192"),
        ("<b>", "3", "4", "192"),
    ]
    row, predicted = rows[0], data["layers"][0]["predicted"]
    assert (row["clock_hz"], row["status"], row["objective"]) == ("1000000", "OPTIMAL", "energy")
    assert int(row["latency_cycles"]) == predicted["latency_cycles"]
    parts = ("MAC", "PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM", "activation")
    assert sum(int(row[f"energy_{part}_fj"]) for part in parts) == predicted["energy_fj"] == int(row["energy_fj"])
    assert row["mapping"].startswith('{"temporal"')


def test_layer_without_a_mapping_has_empty_figures() -> None:
    """Its columns are those of the others."""
    rows = read_back(document_rows(document(**UNMAPPED)))
    assert rows[1]["status"] == "UNKNOWN"
    assert rows[1]["latency_cycles"] == rows[1]["bound_by"] == rows[1]["mapping"] == ""
    assert rows[1]["macs"] == "192"


def test_name_is_no_formula() -> None:
    """A spreadsheet shows it as text; numbers stay numbers."""
    data = document()
    data["layers"][0]["name"] = '=HYPERLINK("x")'
    rows = read_back(document_rows(data))
    assert rows[0]["layer"] == '\'=HYPERLINK("x")'


def test_escape_sequences_of_names_are_shown_not_sent() -> None:
    """A terminal that prints the file does not obey a name."""
    data = document()
    data["layers"][0]["name"] = "\x1b[31mred"
    assert read_back(document_rows(data))[0]["layer"] == "\\x1b[31mred"


def test_file_of_an_older_version_lacks_only_what_it_did_not_have() -> None:
    """Results of before these keys were written."""
    data = document()
    for layer in data["layers"]:
        for key in ("bound_by", "dataflow", "energy_parts_fj", "utilization", "performance"):
            del layer[key]
    row = read_back(document_rows(data))[0]
    assert row["bound_by"] == ""
    assert int(row["energy_fj"]) == data["layers"][0]["predicted"]["energy_fj"]
