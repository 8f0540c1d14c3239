"""Generated tokens of a transformer on a host with HBM-PIM or AiM: which layers of how many blocks run on PIM.

Loads and results are commands of the compiled kernels, so that a layer on PIM passes no link beside them. Its matrix
takes rows of every bank that holds matrices. These banks hold less than the weights of a large model: CP-SAT chooses
for how many blocks each layer is on PIM. The host follows the formulas `attacc-xpu`. Times are without refresh.
"""

from collections.abc import Mapping as Names
from functools import cached_property
from typing import Any

from attrs import frozen
from ortools.sat.python import cp_model

from cpsat_pim.compiler.broadcast import best_of_kernel, lowered_of
from cpsat_pim.compiler.host import Host, Product, host_of, product_seconds
from cpsat_pim.compiler.host.rearrangement import write_ticks
from cpsat_pim.compiler.language import Kernel, KernelMistake, shipped_kernel
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction, matrix_rows
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.mistakes import CompilerDefect
from cpsat_pim.compiler.models.block import ELEMENT, GROUPS, HostBlock, Parts, Request, stepped
from cpsat_pim.compiler.models.transformer import fully_connected
from cpsat_pim.device import Device
from tables.commands.window import NOT_EXACT

#: Systems that are compared.
SYSTEMS = ("gpu", "compiled")


@frozen
class Choice:
    """A layer of every block: picoseconds of all tokens of one block on host and PIM, and rows that its matrix takes in
    every bank."""

    name: str
    group: str
    host_ps: int
    pim_ps: int
    rows: int


@frozen(slots=False)
class BroadcastGeneration:
    """All generated tokens of a request but the first, on a device that sends the same inputs to all cores.

    Raises:
        KernelMistake: the device has no host that writes single banks.
    """

    request: Request
    device: Device

    @property
    def host(self) -> Host:
        """The host that the device names."""
        return host_of(self.device)

    @cached_property
    def block(self) -> HostBlock:
        """One block on the host; all are equal."""
        return HostBlock(self.request.model, self.request.batch, self.host)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The layers that may run on PIM."""
        tokens, batch = len(self.request.lengths), self.request.batch
        found = []
        for layer in fully_connected(self.request.model, batch):
            ticks, rows = self._best(_gemm(layer.product))
            host = _picoseconds(product_seconds(self.host, layer.product)) * tokens
            found.append(Choice(layer.name, layer.group, host, ticks * self.device.tick_ps * tokens, rows))
        return (*found, self._attention)

    @cached_property
    def blocks_on_pim(self) -> dict[str, int]:
        """For how many blocks each layer runs on PIM: the choice of least time, proven by CP-SAT."""
        model, most = cp_model.CpModel(), self.request.model.blocks
        counts = {choice.name: model.new_int_var(0, most, choice.name) for choice in self.choices}
        model.add(sum(counts[choice.name] * choice.rows for choice in self.choices) <= self.device.core.rows)
        model.maximize(sum(counts[choice.name] * (choice.host_ps - choice.pim_ps) for choice in self.choices))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        if solver.status_name(solver.solve(model)) != "OPTIMAL":
            raise CompilerDefect("the choice of blocks is not proven")
        return {name: solver.value(count) for name, count in counts.items()}

    def seconds(self, system: str) -> Parts:
        """Seconds of all blocks by group of layers, of `gpu` or `compiled`."""
        blocks = self.request.model.blocks
        parts = dict.fromkeys(GROUPS, 0.0)
        for choice in self.choices:
            on_pim = self.blocks_on_pim[choice.name] if system == "compiled" else 0
            parts[choice.group] += (on_pim * choice.pim_ps + (blocks - on_pim) * choice.host_ps) * 1e-12
        parts["other"] = self.block.pointwise * blocks * len(self.request.lengths)
        return parts

    @cached_property
    def _attention(self) -> Choice:
        """Scores and contexts on PIM with the mappings of the longest length, so that keys and values never change
        their places; the softmax on the host between them; the new key and value are written into the banks."""
        model, lengths = self.request.model, self.request.lengths
        kernels = [self._attention_kernel(name, stepped(lengths[-1])) for name in ("gemv", "context")]
        mappings = [best_of_kernel(kernel, self.device, self._channels).mapping for kernel in kernels]
        rows = sum(_rows(lowered_of(k, m, self.device)) for k, m in zip(kernels, mappings, strict=True))
        appended = write_ticks(2 * self.request.batch * model.hidden * ELEMENT, self._channels, self.device)
        ticks = {stepped(length): appended for length in lengths}
        for name, mapping in zip(("gemv", "context"), mappings, strict=True):
            longer = 0
            for length in sorted(ticks, reverse=True):
                exact = lowered_of(self._attention_kernel(name, length), mapping, self.device).ticks
                longer = longer if exact == NOT_EXACT else exact  # a lost barrier: as many tokens as the next length
                ticks[length] += longer
        pim = sum(ticks[stepped(n)] * self.device.tick_ps + _picoseconds(self.block.host_softmax(n)) for n in lengths)
        host = sum(_picoseconds(self.block.host_attention(length)) for length in lengths)
        return Choice("attention", "attention", host, pim, rows)

    def _attention_kernel(self, name: str, tokens: int) -> Kernel:
        """Scores (`gemv`) or contexts of all heads."""
        sizes = {"B": self.block.heads, "N": tokens, "K": self.request.model.head_size}
        return shipped_kernel(name).bind(sizes)

    @property
    def _channels(self) -> int:
        return self.device.system.channels

    def _best(self, kernel: Kernel) -> tuple[int, int]:
        """Ticks of the best mapping of a kernel, and rows of its matrix."""
        best = best_of_kernel(kernel, self.device, self._channels)
        return best.ticks, _rows(lowered_of(kernel, best.mapping, self.device))


def _gemm(product: Product) -> Kernel:
    return shipped_kernel("gemm").bind({"B": product.m, "N": product.n, "K": product.k})


def _rows(lowered: Any) -> int:
    """Rows of a bank that the matrix takes."""
    if isinstance(lowered, BankContraction):
        return matrix_rows(lowered.elements.passes, lowered.target)
    assert isinstance(lowered, InOrderContraction)
    return lowered.program.bank_rows


def _picoseconds(seconds: float) -> int:
    return round(seconds * 1e12)


def check_device(device: Device) -> None:
    """Refuse devices that no host model fits.

    Raises:
        KernelMistake: the device names no host, or its host writes no single bank (UPMEM).
    """
    if device.column_writes is None or device.system.host is None:
        raise KernelMistake(f"{device.name}: its host is not modelled, so that a transformer has no time")


def format_blocks(generation: BroadcastGeneration) -> str:
    """Where the layers run, in a line."""
    blocks, counts = generation.request.model.blocks, generation.blocks_on_pim
    rows = sum(counts[choice.name] * choice.rows for choice in generation.choices)
    layers = ", ".join(f"{name} {count}" for name, count in counts.items())
    return (
        f"blocks on PIM  {layers} of {blocks} (OPTIMAL); {rows} of {generation.device.core.rows} rows of a bank; "
        "times are without refresh"
    )


def blocks_data(generation: BroadcastGeneration) -> Names[str, Any]:
    """The same as JSON takes it."""
    return {"blocks_on_pim": dict(generation.blocks_on_pim)}
