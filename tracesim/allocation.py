"""New arrays in kernels. Numba compiles a function for each type and number of sizes that `np.empty` is called with.

(`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.types.misc import unliteral
from numba.core.typing.npydecl import parse_dtype, parse_shape
from numba.core.typing.templates import Signature, signature
from numba.np.arrayobj import _empty_nd_impl, _parse_empty_args

_MAKERS: tuple[Any, ...] = (np.empty, np.zeros)


def type_new_array(function: Any, args: tuple[Any, ...]) -> Signature | None:
    """Return the signature of a call that makes an array by its sizes and the type of its elements; None of others."""
    if not is_maker(function) or len(args) != 2:
        return None
    sizes, element = parse_shape(args[0]), parse_dtype(args[1])
    if sizes is None or element is None:
        return None
    return signature(types.Array(element, sizes, "C"), unliteral(args[0]), args[1])


def is_maker(function: Any) -> bool:
    """Return whether a type is that of a function that makes arrays."""
    return type(function) is types.Function and function.typing_key in _MAKERS


def lower_new_array(context: Any, builder: Any, function: Any, call: Signature, values: list[Any]) -> Any:
    """Return the array that a call makes; `values`: its arguments."""
    kind, sizes = _parse_empty_args(context, builder, call, values)
    array = _empty_nd_impl(context, builder, kind, sizes)
    if function.typing_key is np.zeros:
        cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
    return array._getvalue()
