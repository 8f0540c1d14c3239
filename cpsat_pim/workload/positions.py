"""Products whose positions are counted otherwise than those of what they read: samples, rows and columns.

A product of rows (R = S = 1, stride 1) computes each position of its input by itself. A model may count positions in
any way, such as rows of pixels as samples (a linear layer on channels that lie last), tokens as samples (attention that
has the sequence first), or pixels as one row of tokens. A plan counts them as what the layer reads does, so that
tensors fit together; multiplications, weights and what moves stay the same.
"""

import math

from attrs import evolve

from cpsat_pim.workload.joins import Pool, all_views
from cpsat_pim.workload.network import INPUT, Network, NetworkNode

#: Samples, rows and columns.
Positions = tuple[int, int, int]


def with_positions(network: Network, keeps_rows: bool = True) -> Network:
    """Return the network with the positions of products counted as those of what they read.

    `keeps_rows`: but for those that are one row of all positions, as of tokens that may be patches.
    """
    sizes: dict[str, Positions] = {}
    if network.input is not None:
        sizes[INPUT] = (network.input.N, network.input.H, network.input.W)
    layers = []
    for node in network.layers:
        before = sizes.get(node.after[0]) if node.after else None
        own = node if before is None else counted_as(node, before, keeps_rows)
        layers.append(own)
        layer = own.workload
        width, height = own.pool.size if own.pool else (layer.P, layer.Q)
        sizes[own.name] = (own.samples, height, width)
    return evolve(network, layers=layers)


def counted_as(node: NetworkNode, before: Positions, keeps_rows: bool) -> NetworkNode:
    """Return a layer with its positions as they are counted before, or as one row if there are tokens in front; those
    of what it reads in another order stay as they are.
    """
    if any(view.reorder for view in all_views(node.views)):
        return node
    node = _with_samples(node, before[0])
    layer, (samples, rows, columns) = node.workload, before
    if node.input_pool is not None:
        return evolve(node, input_pool=_of_all(node.input_pool, rows, columns))
    is_product = layer.R * layer.S == 1 and tuple(layer.stride) == (1, 1) and node.pool is None
    own = (layer.N, layer.Q, layer.P)
    is_kept = keeps_rows and (not node.weights or (own[:2] == (samples, 1) and samples * own[2] == math.prod(before)))
    if not is_product or node.shared_heads or node.count > 1 or own == before or is_kept:
        return node
    if math.prod(own) == math.prod(before):
        return evolve(node, workload=evolve(layer, N=samples, Q=rows, P=columns))
    if node.weights and samples == 1 < layer.N:
        return evolve(node, workload=evolve(layer, N=1, Q=1, P=math.prod(own)))
    return node


def _with_samples(node: NetworkNode, samples: int) -> NetworkNode:
    """Return a product of two activations whose samples, each with its own W, are groups with N samples."""
    layer = node.workload
    if node.weights or node.shared_heads or layer.N > 1 or layer.G % samples:
        return node
    return evolve(node, sample_weights=True, workload=evolve(layer, N=samples, G=layer.G // samples))


def _of_all(pool: Pool, rows: int, columns: int) -> Pool:
    """Return a pooling of all positions to one with its window as rows and columns are counted; others as they are."""
    is_whole = pool.size == (1, 1) and math.prod(pool.window) == rows * columns and not any(pool.pad)
    return evolve(pool, window=(columns, rows)) if is_whole else pool
