"""Times phases of a plan with BookSim2 (github.com/booksim/booksim2) and holds them against our own simulation.

    python scripts/check_with_booksim2.py NETWORK PLAN.json --arch MACHINE --program booksim [--phases 5]

Of a plan's phases in which all messages begin at their sources (outputs sent home, inputs delivered), those with the
most flits on a link are sent through BookSim2: 8 virtual channels, XY routing, packets of 16 flits, a node's packets
round robin over its destinations. Sizes are rounded up to whole packets, in our simulation and in the bound as well.
The program must be a BookSim2 in batch mode whose traffic pattern takes the destinations of every node's packets, a
line a node with their number first, from the file that the environment's MSG_FILE names. Meshes must be square.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from attrs import evolve

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.plan_file import read_plan
from cpsat_pim.planner.simulation import to_records
from cpsat_pim.workload.network import Network, read_network
from tracesim.array.inputs import build_case
from tracesim.array.messages import Messages, build_messages, build_roads, count_loads
from tracesim.array.simulator import step_phases
from tracesim.array.traffic import Schedule, simulate_messages

PACKET_FLITS = 16
CONFIGURATION = """
topology = mesh; k = {side}; n = 2; routing_function = dim_order;
num_vcs = 8; vc_buf_size = 8; wait_for_tail_credit = 0;
vc_allocator = islip; sw_allocator = islip; alloc_iters = 2;
credit_delay = 1; routing_delay = 0; vc_alloc_delay = 1; sw_alloc_delay = 1;
input_speedup = 1; output_speedup = 1; internal_speedup = 1.0;
sim_type = batch; batch_size = {packets}; batch_count = 1; max_outstanding_requests = 0;
packet_size = {packet_flits}; injection_rate = 1.0; injection_rate_uses_flits = 1;
traffic = randperm; perm_seed = 1; use_read_write = 0; seed = 1;
"""


class Exchange(NamedTuple):
    """Messages of one round of a phase, in whole packets, and the flits on the busiest link or port."""

    name: str
    messages: Messages
    bound: int


def exchanges(network: Network, plan: Plan, names: list[str]) -> Iterator[Exchange]:
    """Rounds whose messages wait for no other."""
    records = to_records(network, build_graph(network), plan)
    case, roads = build_case(records), build_roads(records.array)
    for layer, name in enumerate(names):
        for phase in step_phases(case, layer):
            for number, flows in enumerate(phase.rounds):
                messages = build_messages(records.array, flows)
                if messages.flits.size and (messages.before < 0).all():
                    whole = messages._replace(flits=-(-messages.flits // PACKET_FLITS) * PACKET_FLITS)
                    bound = int(count_loads(records.array, roads, whole).max())
                    yield Exchange(f"{name} {phase_name(phase)} {number + 1}", whole, bound)


def phase_name(phase: Any) -> str:
    """The name that results have for a phase."""
    from tracesim.array.flows import PHASE_NAMES

    return str(PHASE_NAMES[phase.kind])


def our_cycles(array: Any, messages: Messages) -> int:
    """Cycles until the last flit arrives, as `tracesim.array` simulates it."""
    one = np.array([-1]), np.array([0]), np.array([0])
    schedule = Schedule(*one, np.array([0, messages.flits.size]), np.array([0]))
    _, _, arrival = simulate_messages(array, build_roads(array), messages, schedule, False)
    return int(arrival.max())


def packets(messages: Messages, nodes: int) -> list[list[int]]:
    """Destinations of every node's packets: one of each pending message in turn, from the next number on."""
    lists = []
    for node in range(nodes):
        own = np.flatnonzero(messages.source == node)
        left = {int(messages.target[i]): 0 for i in own}
        for i in own:
            left[int(messages.target[i])] += int(messages.flits[i]) // PACKET_FLITS
        order, found = sorted(left, key=lambda target: (target - node) % nodes), list[int]()
        while any(left.values()):
            for target in (one for one in order if left[one]):
                found.append(target)
                left[target] -= 1
        lists.append(found)
    return lists


def their_cycles(program: str, side: int, messages: Messages) -> int:
    """Cycles that BookSim2 takes for the batch."""
    lists = packets(messages, side * side)
    with tempfile.TemporaryDirectory() as directory:
        config, listed = Path(directory) / "config", Path(directory) / "messages"
        most = max(map(len, lists))
        config.write_text(CONFIGURATION.format(side=side, packets=most, packet_flits=PACKET_FLITS), encoding="ascii")
        listed.write_text("\n".join(" ".join(map(str, [len(one), *one])) for one in lists) + "\n", encoding="ascii")
        environment = {**os.environ, "MSG_FILE": str(listed)}
        # It ends with 255 where it succeeds.
        done = subprocess.run([program, str(config)], check=False, capture_output=True, text=True, env=environment)
    found = re.search(r"Maximum batch duration = (\d+)", done.stdout)
    if found is None:
        raise ValueError(f"{program}: printed no batch duration")
    return int(found[1])


def main() -> int:
    """A line a phase, then the mean ratios."""
    arguments = _arguments()
    network = _network(arguments.network)
    plan = read_plan(arguments.plan, build_graph(network), read_arch(arguments.arch))
    if plan.array.rows != plan.array.cols:
        raise ValueError(f"{arguments.plan}: the mesh must be square")
    array = to_records(network, build_graph(network), plan).array
    names = [node.name for node in network.layers]
    busiest = sorted(exchanges(network, plan, names), key=lambda one: -one.bound)[: arguments.phases]
    ratios = []
    for one in busiest:
        ours, theirs = our_cycles(array, one.messages), their_cycles(arguments.program, array.rows, one.messages)
        ratios.append((ours / one.bound, theirs / one.bound))
        print(f"{one.name}: bound {one.bound}, simulated {ours}, BookSim2 {theirs}", flush=True)
    means = [sum(column) / len(column) for column in zip(*ratios, strict=True)]
    print(f"{len(ratios)} exchanges; of the bound on average: simulated {means[0]:.4f}, BookSim2 {means[1]:.4f}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("plan")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--program", default="booksim")
    parser.add_argument("--phases", type=int, default=5, help="how many of the busiest (%(default)d)")
    return parser.parse_args()


def _network(name: str) -> Network:
    """The network with 16-bit data and 32-bit sums, as NicePIM has them."""
    widths: Any = {"input_bytes": 2, "weight_bytes": 2, "output_bytes": 2, "psum_bytes": 4}
    network = read_network(name)
    layers: Any = [evolve(node, workload=evolve(node.workload, **widths)) for node in network.layers]
    return evolve(network, layers=layers)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"check_with_booksim2: {error}")
