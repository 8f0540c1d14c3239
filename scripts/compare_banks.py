"""What mappings cost if their tensors share banks: activations and DRAM cycles, relative to banks of their own.

    python -m cpsat_pim run resnet50 --arch stacked-3d --json resnet50.json
    python scripts/compare_banks.py resnet50.json

Every mapping of the results is counted under each way to share banks, one bank a part. A mapping whose row buffer
stores a tensor is left out where that tensor shares its bank, because such a mapping is not legal there. With `--check`
every figure is simulated, too.
"""

import argparse
import statistics

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import MappedLayer, differences, simulate
from cpsat_pim.mapping import BANKS, OWN_BANKS, Mapping
from cpsat_pim.report.jsonfile import read_mapped_layers


def one_bank_a_part(arch: PIMArchitecture) -> PIMArchitecture:
    """Return the machine with one bank for each tensor, or for those that share it."""
    dram = attrs.evolve(arch.hierarchy[Level.DRAM], num_banks=1)
    return attrs.evolve(arch, hierarchy=(*arch.hierarchy[: Level.DRAM], dram))


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


def main() -> None:
    """Print a row per layer, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", help="results of `run --json`, or a mapping file")
    parser.add_argument("--check", action="store_true", help="simulate every mapping, too")
    args = parser.parse_args()
    shared = [text for text in BANKS if text != "I|W|O"]
    print(f"{'activations, DRAM cycles':28}" + "".join(f"{text:>20}" for text in shared))
    listed: dict[str, list[tuple[float, float]]] = {text: [] for text in shared}
    for case in read_mapped_layers(args.file):
        found = ratios(case, args.check)
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
    main()
