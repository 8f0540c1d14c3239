"""A good mapping in a fraction of a second, without a search: of those that are built and of those of alike layers."""

from collections.abc import Iterable

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.search.adapted import adapted_mappings
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.descent import Descent
from cpsat_pim.mapper.search.request import SolveRequest
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload


def quick_mapping(
    layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest, alike: Iterable[Mapping] = ()
) -> Mapping | None:
    """Return the cheapest by the formula, improved by a few small changes; None if none is legal.

    `alike`: mappings of layers that resemble this one. The request's time limit is not heeded: without this mapping
    there may be none.
    """
    state = SearchState(*in_whole_units(layer, arch), request, is_walked=False)
    descent = Descent(state)
    adapted = list(adapted_mappings(alike, layer, arch, request.constraints))
    if len(adapted) < state.parameters.quick_alike:
        for mapping in constructed_mappings(layer, arch, request.constraints):
            descent.try_one(mapping)
    for mapping in adapted:
        descent.try_one(mapping)
    if state.incumbent is None:
        return None
    descent.walk(state.incumbent, state.parameters.quick_neighbours, state.seconds + state.parameters.quick_seconds)
    return state.incumbent.mapping
