"""HTML views of results for notebooks: the printed table, and the loop nest of a single layer."""

from collections.abc import Sequence
from html import escape

from cpsat_pim.mapper.result import NetworkLayer, SolvedLayer, SolvedNetwork
from cpsat_pim.report.nest import format_nest
from cpsat_pim.report.text import tabulate


def network_html(network: SolvedNetwork) -> str:
    """Return a table with a row per layer and the totals."""
    return _table(tabulate(network), has_totals=True)


def layers_html(layers: Sequence[SolvedLayer]) -> str:
    """Return a table with a row per layer."""
    return _table(tabulate(_as_network(layers)), has_totals=False)


def layer_html(solved: SolvedLayer) -> str:
    """Return the row of a layer, and its loop nest in a collapsed element."""
    table = layers_html([solved])
    if solved.mapping is None:
        return table
    nest = escape(format_nest(solved.workload, solved.arch, solved.mapping))
    return f"{table}<details><summary>loop nest</summary><pre>{nest}</pre></details>"


def _as_network(layers: Sequence[SolvedLayer]) -> SolvedNetwork:
    """Wrap layers as a network in which each occurs once."""
    nodes = tuple(NetworkLayer(name=s.workload.name, count=1, after=(), solved=s) for s in layers)
    seconds = sum(s.solve_seconds for s in layers)
    return SolvedNetwork(network="", arch=layers[0].arch, objective=layers[0].objective, layers=nodes, seconds=seconds)


def _table(rows: list[list[str]], has_totals: bool) -> str:
    head, *body, totals = rows
    lines = "".join(_row("td", row) for row in body)
    foot = f"<tfoot>{_row('th', totals)}</tfoot>" if has_totals else ""
    return f"<table><thead>{_row('th', head)}</thead><tbody>{lines}</tbody>{foot}</table>"


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
