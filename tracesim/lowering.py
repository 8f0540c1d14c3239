"""Numba's lowering of kernels to LLVM's code, in fewer instructions: the time of all that follows grows with them.

(`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

from functools import reduce
from typing import Any

from numba.core import cgutils
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering
from numba.core.types import intp
from numba.core.types.containers import BaseTuple
from numba.core.types.npytypes import Array
from numba.core.types.scalars import Boolean, Float, Integer, IntegerLiteral
from numba.np.arrayobj import load_item, store_item

from tracesim.allocation import is_maker, lower_new_array

_SCALARS = (Integer, Float, Boolean)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """Numba's pass, by `_Lower`."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        """Return what lowers a kernel."""
        return _Lower


class _References(NRTContext):  # type: ignore[misc]
    """What counts references. Numba takes values apart to find references in them, numbers too."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[tuple[Any, Any]]:
        """Return the type and the counter of every reference in a value."""
        models = self._context.data_model_manager
        found = [(ty, models[ty].get_nrt_meminfo(builder, val))] if models[ty].has_nrt_meminfo() else []
        for member, value_of in models[ty].traverse(builder):
            if models[member].contains_nrt_meminfo():
                found += self.get_meminfos(builder, member, value_of(val))
        return found


class _Lower(Lower):  # type: ignore[misc]
    """Numba's lowering, except that variables without references are not cleared, and elements of arrays are reached
    from the array's value: numba writes all of its fields to memory first.
    """

    def init(self) -> None:
        """Count references by `_References`; the context is this kernel's own."""
        super().init()
        self.context.nrt = _References(self.context, self.context.enable_nrt)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a value in a variable."""
        if self._has_references(name) or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Give back what a variable holds."""
        if self._has_references(name):
            super().delvar(name)

    def _has_references(self, name: str) -> bool:
        return bool(self.context.data_model_manager[self.typeof(name)].contains_nrt_meminfo())

    def _lower_call_normal(self, function: Any, call: Any, signature: Any) -> Any:
        """Return what a function returns."""
        if not is_maker(function) or len(signature.args) != 2 or call.kws:
            return super()._lower_call_normal(function, call, signature)
        values = self.fold_call_args(function, signature, call.args, call.vararg, call.kws)
        return lower_new_array(self.context, self.builder, function, signature, values)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Return an element, or what else an index selects."""
        array = self.typeof(value.name)
        selected = self._selected(value, index)
        if selected is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        pointer, sizes = selected
        if sizes:
            return self._part(array, self.loadvar(value.name), pointer, sizes, resty)
        return self.context.cast(
            self.builder, load_item(self.context, self.builder, array, pointer), array.dtype, resty
        )

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Set an element, or what else an index selects."""
        selected = self._selected(target_var, index_var)
        if selected is None or selected[1]:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, value = self.typeof(target_var.name), self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, self.typeof(value_var.name), array.dtype)
        return store_item(self.context, self.builder, array, value, selected[0])

    def _selected(self, variable: Any, index: Any) -> tuple[Any, list[Any]] | None:
        """Return where what integers select of a C-ordered array begins, and its sizes (none: a number).

        None if the index or the array is of another kind.
        """
        array, kind = self.typeof(variable.name), self.typeof(index.name)
        kinds = tuple(kind) if isinstance(kind, BaseTuple) else (kind,)
        if not _is_part(array, kinds) or self.context.enable_boundscheck:
            return None
        whole, given, model = (
            self.loadvar(variable.name),
            self.loadvar(index.name),
            self.context.data_model_manager[array],
        )
        places = cgutils.unpack_tuple(self.builder, given) if isinstance(kind, BaseTuple) else [given]
        sizes, offset = cgutils.unpack_tuple(self.builder, model.get(self.builder, whole, "shape")), None
        for place, of, size in zip(places, kinds, sizes, strict=False):
            at = self._from_start(place, of, size)
            offset = at if offset is None else self.builder.add(self.builder.mul(offset, size), at)
        for size in sizes[len(kinds) :]:
            offset = self.builder.mul(offset, size)
        return self.builder.gep(model.get(self.builder, whole, "data"), [offset]), sizes[len(kinds) :]

    def _from_start(self, place: Any, kind: Any, size: Any) -> Any:
        """Return an index counted from the start: negative ones are counted from the end."""
        if isinstance(kind, IntegerLiteral) and kind.literal_value >= 0:
            return size.type(kind.literal_value)
        place = self.context.cast(self.builder, place, kind, intp)
        is_negative = self.builder.icmp_signed("<", place, place.type(0))
        return self.builder.select(is_negative, self.builder.add(place, size), place)

    def _part(self, array: Any, whole: Any, pointer: Any, sizes: list[Any], kind: Any) -> Any:
        """Return an array of type `kind` and these sizes within `array`."""
        model, of_part = self.context.data_model_manager[array], self.context.data_model_manager[kind]
        strides = cgutils.unpack_tuple(self.builder, model.get(self.builder, whole, "strides"))[-len(sizes) :]
        fields = {name: model.get(self.builder, whole, name) for name in ("meminfo", "parent", "itemsize")}
        fields |= {"data": pointer, "nitems": reduce(self.builder.mul, sizes)}
        fields |= {name: cgutils.pack_array(self.builder, of) for name, of in (("shape", sizes), ("strides", strides))}
        part = self.context.get_constant_undef(kind)
        for name, field in fields.items():
            part = of_part.set(self.builder, part, field, name)
        self.incref(kind, part)
        return part


def _is_part(array: Any, kinds: tuple[Any, ...]) -> bool:
    """Return whether indices of these types select a number or an array of a C-ordered array of numbers."""
    return (
        isinstance(array, Array)
        and array.layout == "C"
        and len(kinds) <= array.ndim
        and isinstance(array.dtype, _SCALARS)
        and all(isinstance(kind, Integer) for kind in kinds)
    )
