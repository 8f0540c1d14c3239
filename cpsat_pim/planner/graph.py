"""How a network becomes the graph of a plan: its stacks, its sums, and what they keep to (docs/array.md, section 2)."""

import math
from collections.abc import Iterator, Sequence

from attrs import evolve

from cpsat_pim.planner.channels import Span, as_seen, joined, spans_of
from cpsat_pim.planner.sizes import Change, Sizes, leading, output_size, parts_of, with_batch
from cpsat_pim.planner.sums import Shape, Sum, adds_alike, spread_axes, sum_problems
from cpsat_pim.planner.tensors import Graph, LayerTask, Reading, Stack
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import ADD, Range, View, all_views, view_of
from cpsat_pim.workload.network import INPUT, Network, NetworkNode
from cpsat_pim.workload.reorders import Reorder

#: Lines of problems that are told at once: most follow from the first.
MOST_PROBLEMS = 5


def build_graph(network: Network, batch: int = 1) -> Graph:
    """The graph of a network, with N times `batch`.

    Raises:
        ValueError: a layer runs several times, tensors do not fit together, or a join is missing; a line each.
    """
    builder = _Builder(network, batch)
    if problems := list(builder.problems()):
        told, rest = problems[:MOST_PROBLEMS], len(problems) - MOST_PROBLEMS
        lines = [*told, f"{rest} problems more"] if rest > 0 else told
        raise ValueError("\n".join(f"{network.name}: {line}" for line in lines))
    return builder.build()


class _Builder:
    """Collects the tensors of a network."""

    def __init__(self, network: Network, batch: int) -> None:
        self.network, self.batch = network, batch
        self.nodes = [with_batch(node, batch) for node in network.layers]
        for node in self.nodes:
            if any(width % 1 for width in node.workload.width_bytes):
                raise ValueError(f"{node.name}: has elements of a fraction of a byte; plans take whole bytes")
        if not self.nodes[0].after:  # a shape of the command line
            self.nodes[0] = evolve(self.nodes[0], after=(INPUT,))
        self.order = {node.name: i for i, node in enumerate(self.nodes)}
        self.sizes = Sizes({INPUT: self._input_size(), **{node.name: output_size(node) for node in self.nodes}})
        self.widths = {INPUT: self._first_reader().input_bytes, **{n.name: n.workload.output_bytes for n in self.nodes}}
        self.sums = self._sums()
        self.stacks = self._stacks()
        self.stack_of = {member: stack.name for stack in self.stacks.values() for member in stack.members}

    def _first_reader(self) -> ConvWorkload:
        return next((node for node in self.nodes if INPUT in node.after), self.nodes[0]).workload

    def _input_size(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the network's input, as it says or as its first reader spans."""
        size, layer = self.network.input, self._first_reader()
        if size is not None:
            return (size.N * self.batch, size.C, size.H, size.W)
        return (layer.N, layer.G * layer.C, layer.input_height, layer.input_width)

    # Joins

    def _sums(self) -> dict[str, Sum]:
        """Sums by their first operand."""
        found: dict[str, Sum] = {}
        for node in self.nodes:
            if node.join == ADD and len(node.after) > 1:
                last = max(node.after, key=lambda name: self.order.get(name, -1))
                found.setdefault(node.after[0], Sum(operands=node.after, finished_by=last))
        return found

    def _stacks(self) -> dict[str, Stack]:
        """Tensors that are concatenated anywhere belong to one stack."""
        groups: dict[str, list[str]] = {name: [name] for name in self.sizes.of}
        alike = ((parts_of(node), places) for node in self.nodes for places in self.sizes.alike(node))
        side_by_side = [[parts[at].name for at in places] for parts, places in alike if len(places) > 1]
        listed = list(dict.fromkeys(part for parts in side_by_side for part in parts))
        for parts in side_by_side:
            merged = sorted({member for part in parts for member in groups[part]}, key=listed.index)
            for member in merged:
                groups[member] = merged
        return {group[0]: self._stack(group) for group in groups.values()}

    def _stack(self, members: list[str]) -> Stack:
        channels = [self.sizes.of[member][1] for member in members]
        offsets = tuple(sum(channels[:i]) for i in range(len(members)))
        n, _, h, w = self.sizes.of[members[0]]
        return Stack(
            name=members[0],
            members=tuple(members),
            offsets=offsets,
            shape=(n, sum(channels), h, w),
            element_bytes=self.widths[members[0]],
            spread=spread_axes(members[0], self.sums.values(), self.sizes.of),
        )

    def _weight_view(self, node: NetworkNode) -> Reorder | None:
        """How a layer sees the tensor that it reads as W."""
        first, second = node.after[:2]
        view = view_of(node.views, second, int(first == second))
        return view.reorder if view else None

    def _seen_weights(self, node: NetworkNode) -> Shape:
        """(N, C, H, W) of the tensor that a layer reads as W, as it sees it."""
        return self.sizes.seen(node.after[1:2], node.weight_channels, self._weight_view(node))

    def _readings(self, node: NetworkNode) -> list[Reading]:
        """What a layer reads of each stack as its input."""
        parts = parts_of(node)
        spans = as_seen(spans_of([self._range(part.name) for part in parts], node.channels), self.sizes.groups(node))
        own = [
            self._reading(parts[places[0]].name, [span for at, span in spans if at in places], parts[places[0]].view)
            for places in self.sizes.alike(node)
        ]
        added = (self._added(name, view) for name, view in (node.input_adds or {}).items())
        return own + [evolve(reading, is_added=True) for reading in added]

    def _range(self, name: str) -> Range:
        """The channels of a tensor in its stack."""
        stack = self.stacks[self.stack_of[name]]
        start = stack.offsets[stack.members.index(name)]
        return start, start + self.sizes.of[name][1]

    def _reading(self, name: str, spans: Sequence[Span], view: Change = None) -> Reading:
        """Channels of the stack that a tensor belongs to; those that touch as one."""
        return Reading(stack=self.stack_of[name], spans=tuple(joined(spans)), view=view)

    def _added(self, name: str, view: View) -> Reading:
        """What a layer adds to its input or output."""
        spans = [span for _, span in spans_of([self._range(name)], view.channels)]
        return self._reading(name, spans, view.change)

    def _read_as_weights(self, node: NetworkNode) -> Reading:
        """What a product reads in the place of W."""
        name = node.after[1]
        spans = [span for _, span in spans_of([self._range(name)], node.weight_channels)]
        return self._reading(name, spans, self._weight_view(node))

    # Checks

    def problems(self) -> Iterator[str]:
        """One line per rule that is broken."""
        for node in self.nodes:
            yield from self._node_problems(node)
        yield from sum_problems(self.nodes, self.sums, self.sizes.of)
        if len(set(self.widths.values())) > 1:
            yield f"the bytes of all tensors must be the same (got {sorted(set(self.widths.values()))})"

    def _node_problems(self, node: NetworkNode) -> Iterator[str]:
        if node.count > 1:
            unknown = "what each run reads is not known, as of recurrences"
            yield f"{node.name}: count must be 1 in a plan (got {node.count}): {unknown}; write the layers one by one"
        if not node.after:
            yield f"{node.name}: after: must name what it reads"
            return
        if self._is_reordered(node):
            (width, height), layer = self._read_size(node), node.workload
            yield (
                f"{node.name}: takes {', '.join(part.name for part in parts_of(node))} of {height} x {width} as"
                f" {node.blocks * layer.C} channels of {layer.Q} x {layer.P}: must state which of its"
                " elements these are (views, reorder)"
            )
            return
        if not node.weights:
            yield from self._product_problems(node)
        elif len(node.after) > 1 and node.join is None:
            yield f"{node.name}: join: must be concat or add, as it comes after {len(node.after)} layers"
            return
        yield from self._view_problems(node)
        yield from self._size_problems(node)
        yield from self._adding_problems(node)

    def _view_problems(self, node: NetworkNode) -> Iterator[str]:
        """What is joined has one size as it is seen; that of a product comes from one stack."""
        parts = parts_of(node)
        is_weight_seen = not node.weights and self._weight_view(node) is not None
        names = [part.name for part in parts]
        listed = names if node.weights else [*node.after]
        for name, views in (node.views or {}).items():
            if isinstance(views, tuple) and len(views) != listed.count(name):
                yield f"{node.name}: views: {name}: must be {listed.count(name)}, one each time (got {len(views)})"
        named = {*names, *(node.after[1:] if is_weight_seen else ())}
        if any(view.channels for view in all_views(node.views)):
            yield f"{node.name}: views: must not have channels, which are those of the layer"
        if node.views and (node.input_pool or not set(node.views) <= named):
            yield f"{node.name}: views: must be of tensors that are its input, without an input_pool"
        yield from self._reorder_problems(node)
        seen = [self.sizes.seen((part.name,), None, part.view) for part in parts]
        sizes = {(samples, *size) for samples, _, *size in seen}
        if len(sizes) > 1:
            yield f"{node.name}: after: must have one size (got {', '.join(map(str, sorted(sizes)))})"
        for part in sorted({part.name for part in parts if parts.count(part) > 1}):
            yield f"{node.name}: after: must not have {part} twice in one view"

    def _reorder_problems(self, node: NetworkNode) -> Iterator[str]:
        """What is reordered together stands side by side, and each of its elements is seen once."""
        parts, alike = parts_of(node), zip(self.sizes.alike(node), self.sizes.taken(node), strict=True)
        read = [(parts[places[0]].name, *taken) for places, taken in alike]
        if not node.weights:
            shape = self.sizes.read(node.after[1:2], node.weight_channels)
            read.append((node.after[1], self._weight_view(node), shape))
        for name, view, shape in read:
            if isinstance(view, Reorder) and not view.fits(shape):
                yield f"{node.name}: views: {name}: reorder: must have each element of {shape} once"
        if self.sizes.is_scattered(node):
            yield f"{node.name}: after: must have tensors side by side that are reordered together (views)"

    def _adding_problems(self, node: NetworkNode) -> Iterator[str]:
        """What is added is of the input's or output's size as it is seen; each element of it once if reordered."""
        if node.adds and node.pool:
            yield f"{node.name}: adds: must be of a layer that does not pool its output"
        made, read = self.sizes.of[node.name], self.sizes.seen_by(node)
        places = ("adds", node.adds, made), ("input_adds", node.input_adds, read)
        for key, name, view, size in ((key, *one, size) for key, adds, size in places for one in (adds or {}).items()):
            seen, shape = self.sizes.seen((name,), view.channels, view.change), self.sizes.read((name,), view.channels)
            if len(view.channels or ("all",)) > 1:
                yield f"{node.name}: {key}: {name} must have one range of its channels"
            if isinstance(view.change, Reorder) and not view.change.fits(shape):
                yield f"{node.name}: {key}: {name}: reorder: must have each element of {shape} once"
            if seen != size:
                yield f"{node.name}: {key}: {name} must be seen as {size} (got {seen})"

    def _size_problems(self, node: NetworkNode) -> Iterator[str]:
        """What is read has the channels and the size that the layer takes."""
        layer, names = node.workload, ", ".join(part.name for part in parts_of(node))
        samples, channels, *_ = self.sizes.seen_by(node)
        if channels != node.blocks * layer.C:
            yield f"{node.name}: must read {node.blocks * layer.C} channels (got {channels} of {names})"
        if samples != node.samples:
            yield f"{node.name}: must read {node.samples} samples (got {samples})"
        if not adds_alike(node, self.sizes.of):
            return  # which is told of the sum
        size = self._read_size(node)
        taken = (layer.input_width, layer.input_height)
        steps = (layer.dilation[0] * (layer.R - 1), layer.dilation[1] * (layer.S - 1))
        is_product = layer.R * layer.S * layer.Q == 1 and size[1] == 1
        constants = node.pad if is_product and node.pad else (0, 0)
        reach = [max(2 * step, constant) for step, constant in zip(steps, constants, strict=True)]
        for axis, have, need, most, stride in zip(("columns", "rows"), size, taken, reach, layer.stride, strict=True):
            if need - have > most or (have - need >= stride and not is_product):
                how = "must be padded, pooled or resized to fit (pad, pool, input_pool, views)"
                yield f"{node.name}: takes {need} {axis} (got {have}): {how}"

    def _is_reordered(self, node: NetworkNode) -> bool:
        """Whether a layer takes elements of what it reads (a product some of them) as other channels and positions."""
        layer, shape = node.workload, self.sizes.seen_by(node)
        _, channels, height, width = shape
        spanned = (layer.P * layer.stride[0], layer.Q * layer.stride[1])
        elements = node.samples * node.blocks * layer.C * math.prod(spanned)
        fits = elements == math.prod(shape) if node.weights else math.prod(shape) % elements == 0
        return node.blocks * layer.C != channels and math.prod(spanned) != width * height and fits

    def _product_problems(self, node: NetworkNode) -> Iterator[str]:
        layer = node.workload
        if len(node.after) != 2:
            yield f"{node.name}: after: must name I and what takes the place of W (got {len(node.after)})"
            return
        if layer.R * layer.S * (1 if node.sample_weights else node.samples) > 1:
            yield f"{node.name}: a product of two activations must have R = S = N = 1, or N heads (shared_heads)"
        samples, c, h, w = self._seen_weights(node)
        if samples != node.samples:
            yield f"{node.name}: must read {node.samples} samples as W (got {samples})"
        fits = self._weight_rows(node)
        if len(fits) != 1:
            why = "both would fit" if fits else f"neither K nor C fits {c} channels of {h} x {w}"
            yield f"{node.name}: weight_rows: must be K or C ({why})"

    def _weight_rows(self, node: NetworkNode) -> list[str]:
        """The dims that may run along the positions of the tensor that is W."""
        layer, (_, channels, height, width) = node.workload, self._seen_weights(node)
        fits = {"K": (layer.G * layer.C, layer.K), "C": (layer.G * layer.K, layer.C)}
        wanted = [node.weight_rows] if node.weight_rows else list(fits)
        return [dim for dim in wanted if fits[dim] == (channels, width * height)]

    # Results

    def _read_size(self, node: NetworkNode) -> tuple[int, int]:
        """(width, height) of what a layer reads, as it sees it."""
        return self.sizes.seen_by(node)[:1:-1]

    def _pad(self, node: NetworkNode) -> tuple[int, int]:
        if node.pad is not None:
            return node.pad
        (width, height), layer = self._read_size(node), node.workload
        return (leading(layer.input_width - width), leading(layer.input_height - height))

    def _task(self, node: NetworkNode) -> LayerTask:
        stack = self.stacks[self.stack_of[node.name]]
        reads, *beside = self._readings(node)
        return LayerTask(
            name=node.name,
            workload=node.workload,
            reads=reads,
            beside=tuple(beside),
            adds=tuple(self._added(name, view) for name, view in (node.adds or {}).items()),
            reads_weights=None if node.weights else self._read_as_weights(node),
            weight_rows=None if node.weights else self._weight_rows(node)[0],
            pad=self._pad(node),
            pool=node.pool,
            writes=stack.name,
            offset=stack.offsets[stack.members.index(node.name)],
            has_heads=bool(node.shared_heads),
            has_sample_weights=node.sample_weights and node.samples > 1,
            finishes=tuple(s for s in self.sums.values() if s.finished_by == node.name),
        )

    def build(self) -> Graph:
        """The graph of a network without mistakes."""
        tasks = tuple(self._task(node) for node in self.nodes)
        return Graph(
            name=self.network.name,
            batch=self.batch,
            stacks=self.stacks,
            tasks=tasks,
            sums=tuple(self.sums.values()),
            home_of=self._homes(tasks),
            stack_of=self.stack_of,
        )

    def _homes(self, tasks: Sequence[LayerTask]) -> dict[str, str]:
        """Operands of a sum have one home, as has what a layer reads besides the first; the earliest whole one's."""
        home = {name: name for name in self.stacks}
        order = sorted(self.stacks, key=lambda name: bool(self.stacks[name].spread))
        for together in (*map(self._summed, self.sums.values()), *(task.read_stacks[1:] for task in tasks)):
            names = {home[stack] for stack in together}
            first = min(names, key=order.index, default="")
            home = {name: first if target in names else target for name, target in home.items()}
        return home

    def _summed(self, one: Sum) -> list[str]:
        """The stacks of a sum's operands."""
        stacks = [self.stack_of[operand] for operand in one.operands]
        if any(len(self.stacks[stack].members) > 1 for stack in stacks):
            raise ValueError(f"{self.network.name}: {one.first}: operands of a sum must not be concatenated")
        return stacks
