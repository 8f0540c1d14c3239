"""Networks with counts, written out: a block that runs n times becomes n blocks, each behind the one before.

In a network's file a block of equal layers is written once, with `count` and with the `after` of its first run. What
the block reads of other layers is the output of the run before in every later run. Its output is what later layers
read of it, or its last layer's.

Products of activations read all rows of their second operand. Where a language model caches keys and values, the layer
behind makes the newest of these rows only: the others are in the cache, which lies in DRAM before and after. Such an
operand is planned like weights: it stays where it is read, and takes its room there (docs/array.md, section 2).

Image patches become tokens: a filter that tiles the network's input, and whose output is read as one row of tokens, is
planned as the product that it is. Constant tokens in front count as patches of zeros.

Products of rows with weights compute each position by itself, so those whose samples, rows and columns are counted
otherwise than those of what they read are planned as these are (`cpsat_pim.workload.positions`).
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from attrs import evolve

from cpsat_pim.workload.joins import all_views
from cpsat_pim.workload.network import INPUT, Network, NetworkNode
from cpsat_pim.workload.positions import with_positions


def written_out(network: Network) -> Network:
    """Return the network with every block as often as it runs, cached operands as weights, and patches as tokens.

    Raises:
        ValueError: it is not clear which tensor a later run of a block reads.
    """
    network = with_positions(_with_tokens(with_positions(network)), keeps_rows=False)
    if all(node.count == 1 for node in network.layers):
        return evolve(network, layers=_with_caches(network.layers))
    layers: list[NetworkNode] = []
    last_runs: dict[str, str] = {}
    for count, block in groupby(network.layers, lambda node: node.count):
        nodes = [_renamed(node, last_runs) for node in block]
        if count == 1:
            layers += nodes
        else:
            layers += _runs(network, nodes, count)
            last_runs |= {node.name: _name(node.name, count - 1) for node in nodes}
    return evolve(network, layers=_with_caches(layers))


def _runs(network: Network, nodes: Sequence[NetworkNode], count: int) -> Iterator[NetworkNode]:
    """Yield the layers of all runs of a block."""
    own = {node.name for node in nodes}
    read = list(dict.fromkeys(name for node in nodes for name in node.read if name not in own))
    if len(read) > 1:
        raise ValueError(
            f"{network.name}: {nodes[0].name}: count: runs of a block must read one tensor of other layers"
            f" (got {', '.join(read)})"
        )
    output = _output(network, nodes)
    _check_chain(network, nodes, read, output)
    for run in range(count):
        behind = {name: _name(name, run) for name in own}
        if run:
            behind |= {name: _name(output, run - 1) for name in read}
        for node in nodes:
            # Constant tokens come in front of what the first run reads; later runs read them with the rest.
            pad = None if run and node.pad and set(node.after) & set(read) else node.pad
            yield evolve(_renamed(node, behind), name=_name(node.name, run), count=1, pad=pad)


def _check_chain(network: Network, nodes: Sequence[NetworkNode], read: Sequence[str], output: str) -> None:
    """Refuse a block whose later runs cannot read what the run before makes: steps of a recurrence."""
    last = next(node for node in nodes if node.name == output)
    made = last.blocks * last.workload.K
    for node in nodes:
        wanted = node.blocks * node.workload.C
        if node.weights and node.after == tuple(read) and node.channels is None and wanted != made:
            raise ValueError(
                f"{network.name}: {node.name}: count: must read {wanted} channels in each run (got {made} of {output}"
                " in the run before): no plan takes steps of a recurrence"
            )


def _output(network: Network, nodes: Sequence[NetworkNode]) -> str:
    """Return the layer of a block that others read; its last one if nobody does."""
    own = [node.name for node in nodes]
    read = [name for node in network.layers if node.name not in own for name in node.read if name in own]
    outputs = list(dict.fromkeys(read)) or own[-1:]
    if len(outputs) > 1:
        raise ValueError(
            f"{network.name}: {own[0]}: count: other layers must read one tensor of a block (got {', '.join(outputs)})"
        )
    return outputs[0]


def _renamed(node: NetworkNode, names: dict[str, str]) -> NetworkNode:
    """Return a layer that comes after layers of other names."""
    views = node.views and {names.get(name, name): view for name, view in node.views.items()}
    adds, input_adds = (
        some and {names.get(name, name): view for name, view in some.items()} for some in (node.adds, node.input_adds)
    )
    after = [names.get(name, name) for name in node.after]
    return evolve(node, after=after, views=views, adds=adds, input_adds=input_adds)


def _name(name: str, run: int) -> str:
    """Return the name of a layer's run, counted from 0."""
    return f"{name}.{run}"


def _with_caches(nodes: Sequence[NetworkNode]) -> list[NetworkNode]:
    """Return the layers, those of a product whose second operand is cached as layers with weights of each sample."""
    made = {node.name: node for node in nodes}
    return [
        evolve(node, weights=True, sample_weights=True, after=node.after[:1]) if _is_cached(node, made) else node
        for node in nodes
    ]


def _is_cached(node: NetworkNode, made: dict[str, NetworkNode]) -> bool:
    """Whether a product takes more rows of its second operand than the layer behind makes."""
    if node.weights or len(node.after) != 2 or node.after[1] == INPUT:
        return False
    layer, behind = node.workload, made[node.after[1]].workload
    fits = {"K": (layer.G * layer.C, layer.K), "C": (layer.G * layer.K, layer.C)}
    wanted = [fits[node.weight_rows]] if node.weight_rows else list(fits.values())
    made_channels = behind.G * behind.K
    if node.weight_channels is not None:
        made_channels = sum(stop - start for start, stop in node.weight_channels)
    rows = [taken for channels, taken in wanted if channels == made_channels]
    return len(rows) > 0 and behind.Q == 1 and all(taken > behind.P for taken in rows)


def _with_tokens(network: Network) -> Network:
    """Return the network with the patches of its input as a row of tokens, if it reads them as such."""
    for at, node in enumerate(network.layers):
        readers = [one for one in network.layers if node.name in one.after]
        if _is_patches(node) and readers and all(_reads_rows(one, node) for one in readers):
            layer = node.workload
            tokens, channels = layer.P * layer.Q, layer.C * layer.R * layer.S
            constants = 0 if any(one.pad for one in readers) else max(one.workload.P for one in readers) - tokens
            row = evolve(layer, P=constants + tokens, Q=1, C=channels, R=1, S=1, stride=(1, 1))
            made = evolve(node, workload=row, pad=(constants, 0) if constants else node.pad)
            layers = [*network.layers[:at], made, *network.layers[at + 1 :]]
            size = network.input and evolve(network.input, C=channels, H=1, W=tokens)
            return evolve(network, layers=layers, input=size)
    return network


def _is_patches(node: NetworkNode) -> bool:
    """Whether a layer's filter tiles the network's input, without padding or groups."""
    layer = node.workload
    is_alone = node.after in ((), (INPUT,)) and node.pool is node.input_pool is None and not any(node.pad or (0, 0))
    is_tiling = tuple(layer.stride) == (layer.R, layer.S) and tuple(layer.dilation) == (1, 1)
    return is_alone and is_tiling and layer.Q > 1 and layer.R * layer.S * layer.G > 1 == layer.G


def _reads_rows(reader: NetworkNode, node: NetworkNode) -> bool:
    """Whether a layer reads the output of another one as one row of tokens."""
    layer, made = reader.workload, node.workload
    if any(view.reorder for view in all_views(reader.views)):
        return False
    return layer.R * layer.S * layer.Q == 1 and layer.P >= made.P * made.Q
