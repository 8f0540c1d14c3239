"""How operators reorder the channels and the positions of what they read, whichever format they come from: the maps of
their results (`cpsat_pim.importers.channel_maps`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, frozen

from cpsat_pim.importers.channel_maps import (
    Map,
    channels_along,
    common_map,
    kept_map,
    of_product,
    places_along,
    product_channels,
    product_places,
    side_by_side,
)
from cpsat_pim.importers.einstein import matrix_form
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape

#: A tensor that is read: its parts, and its map if it is followed.
Read = tuple[Parts, Map | None]


def adding(result: Parts, read: Sequence[Parts]) -> int | None:
    """Return which operand is of the layer that adds the others to its output, so that the result lies as that does;
    None if none is.
    """
    if len(result) != 1 or len(result[0]) != 1 or not result[0][0].adds:
        return None
    own = ((evolve(result[0][0], adds=()),),)
    return read.index(own) if own in read else None


def is_one_layer(result: Parts) -> bool:
    """Return whether a convolution is one layer's output as it is, not phases that make it in another order."""
    return len(result) == 1 and result[0][0].reorder is None


class Channels:
    """Which channel each element is."""

    def convolved(self, out: Shape) -> Map | None:
        """Return the map of the result of a convolution, [batch, channels, ...]."""
        return channels_along(out, 1)

    def rows(self, out: Shape) -> Map | None:
        """Return the map of a product of rows of channels with a matrix of constants."""
        return channels_along(out, -1)

    def product(self, left: Shape, right: Shape, out: Shape, is_turned: bool = False) -> Map | None:
        """Return the map of a matrix product, of which the left operand is W if it `is_turned`."""
        return of_product(product_channels, left, right, out, is_turned)

    def joined(self, maps: Sequence[Map | None], firsts: Sequence[int], axis: int) -> Map | None:
        """Return the map of tensors that are concatenated; `firsts`: their first channels."""
        return side_by_side(maps, firsts, axis)

    def combined(self, parts: Sequence[Parts], whole: Sequence[Read], out: Shape) -> Map | None:
        """Return the map of a function of single elements; of several parts only if all operands have the same.

        `whole`: the operands that have an element for each one of the result.
        """
        if len(set(parts)) > 1 and any(len(one) > 1 for one in parts):
            return None
        return common_map([own for _, own in whole], out)

    def passed(self, own: Map | None, out: Shape, is_in_order: bool) -> Map | None:
        """Return the map of what another operator makes, which gives back as many channels as it reads if it does."""
        return kept_map(own, out)


@frozen
class Places:
    """Which position each element is, as layers count the positions of what they make, row by row."""

    #: `CountedLayers.recount`.
    recount: Callable[[Parts, Map, Parts, Map], bool]

    def convolved(self, out: Shape) -> Map | None:
        """Return the map of the result of a convolution, [batch, channels, rows, columns]."""
        return places_along(out, [0, 2, 3]) if len(out) == 4 else None

    def rows(self, out: Shape) -> Map | None:
        """Return the map of a product of rows of channels with a matrix of constants."""
        return places_along(out, range(len(out) - 1))

    def product(self, left: Shape, right: Shape, out: Shape, is_turned: bool = False) -> Map | None:
        """Return the map of a matrix product, of which the left operand is W if it `is_turned`."""
        return of_product(product_places, left, right, out, is_turned)

    def joined(self, maps: Sequence[Map | None], firsts: Sequence[int], axis: int) -> Map | None:
        """Return the map of tensors that are concatenated: each keeps the positions of its layer."""
        return side_by_side(maps, [0] * len(maps), axis)

    def combined(self, parts: Sequence[Parts], whole: Sequence[Read], out: Shape) -> Map | None:
        """Return the map of a function of single elements.

        Of layers' outputs whose positions are counted differently, one layer's are counted as those of the others from
        then on, if it can count them so.
        """
        known = [(one, own) for one, own in whole if own is not None]
        if not known or len(known) < len(whole):
            return None
        for first, others in ((known[0], known[1:]), (known[-1], known[:-1])):
            if all(self.recount(*other, *first) for other in others):
                return first[1]
        return known[0][1] if all(np.array_equal(own, known[0][1]) for _, own in known) else None

    def passed(self, own: Map | None, out: Shape, is_in_order: bool) -> Map | None:
        """Return the map of what another operator makes, if that keeps its elements in order."""
        return kept_map(own, out) if is_in_order else None


#: What maps are of.
Rules = Channels | Places


def of_einsum(rules: Rules, equation: str, shapes: Sequence[Shape | None], is_turned: bool) -> Map | None:
    """Return the map of an Einstein sum, whose first operand is W if it `is_turned`; None if it is no product of two
    matrices.
    """
    known = [shape for shape in shapes if shape is not None]
    form = matrix_form(equation, *known) if len(known) == 2 == len(shapes) else None
    if form is None:
        return None
    found = rules.product(form.left_shape, form.right_shape, form.out, is_turned)
    return None if found is None else found.reshape(form.spelled).transpose(form.order)
