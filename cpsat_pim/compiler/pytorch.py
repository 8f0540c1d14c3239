"""PyTorch modules on a PIM device: products with weights that pay there are replaced, computed in FP16, and timed.

    from cpsat_pim.compiler import pytorch as pim

    fast = pim.compile(module, "attacc", (example,))
    result = fast(example)
    print(fast.report())

The module is read by `torch.export`. A product `linear` whose best mapping takes less time than the host is replaced;
its result is what the commands of the mapping compute, bit by bit (`precision`), up to `MOST_TERMS` products; larger
ones are computed by PyTorch. An attention of one new token over past keys and values that is faster on PIM is replaced,
too (`pytorch_attention`); `tokens=range(129, 257)` states how many keys it will meet. All other operators stay. Needs
the extra `torch`.
"""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen

from cpsat_pim.compiler.host import Host, Product, host_of, product_seconds
from cpsat_pim.compiler.mapping import Mapping
from cpsat_pim.compiler.models.compiled import weight_contraction
from cpsat_pim.compiler.precision import fp16_result
from cpsat_pim.compiler.pytorch_attention import PlacedAttention, replace_attentions
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import read_device

#: Products whose FP16 sums are formed one by one; larger results are PyTorch's.
MOST_TERMS = 1 << 26


@frozen
class Placed:
    """A product of the module: its shape, what host and PIM take (None if no mapping fits), and its mapping if it runs
    on PIM."""

    name: str
    product: Product
    host_ps: int
    pim_ps: int | None
    mapping: Mapping | None

    @property
    def is_on_pim(self) -> bool:
        """Whether it was replaced."""
        return self.mapping is not None

    @property
    def time_ps(self) -> int:
        """Picoseconds where it runs."""
        return self.pim_ps if self.is_on_pim and self.pim_ps is not None else self.host_ps


class Compiled(torch.nn.Module):  # type: ignore[misc]
    """A module of which some products run on PIM. Called like the module that it was compiled from."""

    def __init__(
        self, module: Any, placed: tuple[Placed, ...], attentions: tuple[PlacedAttention, ...], target: Target
    ) -> None:
        super().__init__()
        self.module, self.placed, self.attentions, self.target = module, placed, attentions, target

    def forward(self, *inputs: Any) -> Any:
        """The result of the module."""
        return self.module(*inputs)

    @property
    def time_ps(self) -> int:
        """Picoseconds of all products with weights and of all attentions, each where it runs; of an attention in the
        mean of its lengths."""
        products = sum(found.time_ps for found in self.placed)
        return products + sum(found.time_ps // len(found.lengths) for found in self.attentions)

    def report(self) -> str:
        """A line a product and attention: where it runs, and what it takes on host and PIM."""
        lines = [f"{'product':24} {'m x n x k':>20} {'host us':>10} {'PIM us':>10}  place"]
        for found in self.placed:
            shape = f"{found.product.m} x {found.product.n} x {found.product.k}"
            place = "PIM" if found.is_on_pim else "host"
            lines.append(f"{found.name:24} {shape:>20} {_us(found.host_ps):>10} {_us(found.pim_ps):>10}  {place}")
        for one in self.attentions:
            host_us, pim_us = (_us(ps, len(one.lengths)) for ps in (one.host_ps, one.pim_ps))
            lines.append(f"{one.name:24} {one.shape:>20} {host_us:>10} {pim_us:>10}  {one.place}")
        host = sum(found.host_ps for found in self.placed)
        host += sum(found.host_ps // len(found.lengths) for found in self.attentions)
        lines.append(f"all of these: {self.time_ps / 1e6:.3f} us, {host / 1e6:.3f} us on the host alone")
        return "\n".join(lines)


def _us(picoseconds: int | None, parts: int = 1) -> str:
    """Microseconds of one of so many parts, in a column of a report."""
    return "-" if picoseconds is None else f"{picoseconds / parts / 1e6:.3f}"


def compile(
    module: Any,
    device: str | Path,
    example_inputs: tuple[Any, ...],
    tokens: range | None = None,
    dynamic_shapes: Any = None,
) -> Compiled:
    """The module with every `linear` and every attention of one token that is faster on PIM replaced.

    `tokens`: how many keys the attention will meet, its own included; as many as in the example if None. With more than
    one length `dynamic_shapes` tells `torch.export` which sizes change.

    Raises:
        ValueError: the device file has mistakes.
        KernelMistake: the compiler cannot use the device.
    """
    target = target_of(read_device(device))
    host = host_of(target.device)
    graph = torch.export.export(module, example_inputs, dynamic_shapes=dynamic_shapes).module()
    placed = []
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.linear.default:
            found = _place(node, target, host)
            placed.append(found)
            if found.is_on_pim:
                node.target = _run_on(found, target)
    attentions = replace_attentions(graph.graph, target, tokens)
    graph.recompile()
    return Compiled(graph, tuple(placed), attentions, target)


def _place(node: Any, target: Target, host: Host) -> Placed:
    """Where a `linear` runs: its optimum on PIM against the host's formula."""
    inputs, weight = (node.args[at].meta["val"].shape for at in (0, 1))
    product = Product(prod(inputs[:-1]), int(weight[0]), int(weight[1]))
    best = best_mapping(weight_contraction(product), target, host=host, counts=False)
    host_ps = round(product_seconds(host, product) * 1e12)
    pays = best is not None and best.time_ps < host_ps
    pim_ps = best.time_ps if best is not None else None
    return Placed(node.name, product, host_ps, pim_ps, best.mapping if best is not None and pays else None)


def _run_on(placed: Placed, target: Target) -> Callable[..., Any]:
    """A function in place of `linear` that computes what the commands compute."""
    contraction, product = weight_contraction(placed.product), placed.product

    def pim_linear(inputs: Any, weight: Any, bias: Any = None) -> Any:
        flat = inputs.reshape(-1, product.k)
        if placed.mapping is None or product.m * product.n * product.k > MOST_TERMS:
            result = torch.nn.functional.linear(flat, weight)
        else:
            arrays = [part.detach().to(torch.float16).numpy() for part in (weight, flat)]
            numbers = fp16_result(placed.mapping, contraction, target, *arrays)
            result = torch.from_numpy(np.ascontiguousarray(_rows(numbers, product))).to(inputs.dtype)
        result = result if bias is None else result + bias
        return result.reshape(*inputs.shape[:-1], product.n)

    return pim_linear


def _rows(numbers: Any, product: Product) -> Any:
    """[m, n] of [batch, shared, outputs]."""
    return numbers.reshape(product.m, product.n)
