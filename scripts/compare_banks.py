"""What mappings cost if their tensors share banks: activations and DRAM cycles, relative to banks of their own.

    python -m cpsat_pim run resnet50 --arch stacked-3d --json resnet50.json
    python scripts/compare_banks.py resnet50.json

Every mapping of the results is counted under each way to share banks, one bank a part. A mapping whose row buffer
stores a tensor is left out where that tensor shares its bank, because such a mapping is not legal there. With `--check`
every figure is simulated, too.

    python scripts/compare_banks.py --draw 15 --program DRAMsim3/build/dramsim3main

draws legal mappings of small layers whose tensors share banks, for every preset, and lets DRAMsim3
(github.com/umd-memsys/DRAMsim3) count columns and activations; with `--several` mappings whose tensors have several of
16 banks. Ends with 1 if a count is not that of `tables` and of `tracesim`.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator

import attrs
import numpy as np
from check_with_dramsim3 import count_with_dramsim3, counted

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import MappedLayer, differences, simulate
from cpsat_pim.export.dramtrace import DEFAULT_ROW_BITS
from cpsat_pim.mapping import BANKS, ONE_BANK, OWN_BANKS, Mapping
from cpsat_pim.report.jsonfile import read_mapped_layers
from cpsat_pim.study.baselines.space import Space
from cpsat_pim.study.fuzz.oracle import bank_counts
from cpsat_pim.workload import ConvWorkload

#: Banks of a node of the default machine, a channel: enough for each tensor to have its own, so the preset has none.
DEFAULT_NODE_BANKS = 16
#: Layers whose traces are short: a convolution, a strided one, a matrix product, groups.
LAYERS = tuple(
    ConvWorkload(name=name, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4, **bounds)
    for name, bounds in {
        "3x3": {"R": 3, "S": 3, "P": 6, "Q": 6, "C": 8, "K": 8},
        "strided": {"P": 7, "Q": 7, "C": 16, "K": 16, "stride": (2, 2)},
        "matrix": {"C": 256, "K": 64, "N": 2},
        "groups": {"R": 3, "S": 3, "P": 4, "Q": 4, "C": 4, "K": 4, "G": 8},
    }.items()
)
#: Bytes of a column below which DRAMsim3's device would be narrower than a byte, at a burst of four.
LEAST_COLUMN = 4
#: The most columns of a trace, so that a count takes a second or two.
MOST_COLUMNS = 10_000


def one_bank_a_part(arch: PIMArchitecture) -> PIMArchitecture:
    """Return the machine with one bank for each tensor, or for those that share it."""
    dram = attrs.evolve(arch.hierarchy[Level.DRAM], num_banks=1)
    return attrs.evolve(arch, hierarchy=(*arch.hierarchy[: Level.DRAM], dram))


def with_node_banks(arch: PIMArchitecture) -> PIMArchitecture:
    """Return the machine; the default one with the banks of its node, so that tensors may share them, too."""
    return arch if arch.node_banks else attrs.evolve(arch, node_banks=DEFAULT_NODE_BANKS)


def drawn(arch: PIMArchitecture, number: int, several: bool = False) -> Iterator[MappedLayer]:
    """Yield legal mappings of small layers whose tensors share banks, or have `several`, and whose traces are short."""
    rng, spaces = np.random.default_rng(0), [Space(layer, arch) for layer in LAYERS]
    while number:
        space = spaces[number % len(spaces)]
        mapping = space.draw(rng).to_mapping(space.layer)
        if several:
            counts = list(bank_counts(arch, mapping.banks))
            mapping = attrs.evolve(mapping, bank_counts=counts[rng.integers(len(counts))])
        columns = sum(predict(space.layer, arch, mapping).figures.column_accesses)
        is_wanted = max(mapping.bank_counts) > 1 if several else mapping.banks != OWN_BANKS
        if is_wanted and columns <= MOST_COLUMNS:
            number -= 1
            yield MappedLayer(layer=space.layer, arch=arch, mapping=mapping)


def count_drawn(number: int, program: str, several: bool) -> int:
    """Print a row per machine, and return the number of mappings that DRAMsim3 counts otherwise."""
    wrong = 0
    print(f"{'machine':20}{'banks':>6}{'mappings':>10}{'columns':>10}{'activations':>13}{'of own banks':>14}  equal")
    for name in arch_names():
        arch, totals, differing = read_arch(name), np.zeros(3, np.int64), 0
        arch = attrs.evolve(arch, node_banks=DEFAULT_NODE_BANKS) if several else with_node_banks(arch)
        if arch.column_bytes < LEAST_COLUMN:
            continue
        for case in drawn(attrs.evolve(arch, page_policy="open"), number, several):
            figures = predict(case.layer, case.arch, case.mapping).figures
            alone = attrs.evolve(case.mapping, banks=OWN_BANKS, bank_counts=ONE_BANK)
            own = predict(case.layer, case.arch, alone).figures
            ours = (sum(figures.column_accesses), sum(figures.row_activations))
            theirs = counted(case, "dramsim3", count_with_dramsim3, program, DEFAULT_ROW_BITS)
            is_simulated = not differences(figures, simulate(case.layer, case.arch, case.mapping), "simulated")
            differing += theirs != ours or not is_simulated
            totals += (*theirs, sum(own.row_activations))
        wrong += differing
        cells = f"{arch.node_banks:>6}{number:>10}{totals[0]:>10,}{totals[1]:>13,}{totals[2]:>14,}"
        print(f"{name:20}{cells}  {number - differing} of {number}", flush=True)
    return wrong


def is_allowed(mapping: Mapping) -> bool:
    """Return whether the row buffer stores only tensors that have a bank for themselves."""
    stored, banks = mapping.stored[Level.ROW_BUFFER], mapping.banks
    return not any(stored[t] and banks.count(banks[t]) > 1 for t in Tensor)


def ratios(case: MappedLayer, check: bool) -> dict[str, tuple[float, float]]:
    """Return by banks how many times the activations and the DRAM cycles grow."""
    arch = one_bank_a_part(case.arch)
    own = predict(case.layer, arch, attrs.evolve(case.mapping, banks=OWN_BANKS)).figures
    found = {}
    for text, banks in BANKS.items():
        shared = attrs.evolve(case.mapping, banks=banks)
        if not is_allowed(shared):
            continue
        figures = predict(case.layer, arch, shared).figures
        if check and (wrong := differences(figures, simulate(case.layer, arch, shared), "simulated")):
            raise SystemExit(f"{case.layer.name}, {text}: {'; '.join(wrong)}")
        activations = sum(figures.row_activations) / sum(own.row_activations)
        found[text] = (activations, figures.dram_cycles / own.dram_cycles)
    return found


def main() -> int:
    """Print a row per layer, then the medians; or what DRAMsim3 counts of drawn mappings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", nargs="?", help="results of `run --json`, or a mapping file")
    parser.add_argument("--check", action="store_true", help="simulate every mapping, too")
    parser.add_argument("--draw", type=int, metavar="N", help="draw N mappings a machine instead")
    parser.add_argument("--several", action="store_true", help="with --draw: on nodes of 16 banks, several a tensor")
    parser.add_argument("--program", default="dramsim3main", help="DRAMsim3's program")
    args = parser.parse_args()
    if args.draw:
        return min(1, count_drawn(args.draw, args.program, args.several))
    compare(args.file, args.check)
    return 0


def compare(file: str, check: bool) -> None:
    """Print a row per layer, then the medians."""
    shared = [text for text in BANKS if text != "I|W|O"]
    print(f"{'activations, DRAM cycles':28}" + "".join(f"{text:>20}" for text in shared))
    listed: dict[str, list[tuple[float, float]]] = {text: [] for text in shared}
    for case in read_mapped_layers(file):
        found = ratios(case, check)
        cells = [f"x{found[t][0]:.1f} x{found[t][1]:.2f}" if t in found else "-" for t in shared]
        print(f"{case.layer.name:28}" + "".join(f"{cell:>20}" for cell in cells))
        for text in shared:
            listed[text] += [found[text]] if text in found else []
    medians = [
        "x{:.1f} x{:.2f}".format(*map(statistics.median, zip(*rows, strict=True))) if rows else "-"
        for rows in listed.values()
    ]
    print(f"{'median':28}" + "".join(f"{cell:>20}" for cell in medians))


if __name__ == "__main__":
    sys.exit(main())
