"""The tuning constants of the search for one layer's optimum.

None of them changes what is proven: an optimum and its bound are the same for every value. They decide how soon the
proof ends, and what is known if the time ends first. Where a comment says "measured", that measurement chose the value.
Where it gives a reason only, the value is a round number that no measurement has been made for.
"""

from fractions import Fraction
from typing import Any

from attrs import field, fields, frozen

from cpsat_pim.base.validate import Rule, as_tuple, not_negative, not_negative_real, positive, share


def _are_rising(values: Any) -> bool:
    numbers = isinstance(values, tuple) and all(isinstance(v, int | float) and v > 0 for v in values)
    return numbers and bool(values) and list(values) == sorted(set(values))


_rising = Rule("must be rising numbers above 0", _are_rising)
_real = Rule("must be a number", lambda v: isinstance(v, int | float))
_above_zero = Rule("must be a number above 0", lambda v: isinstance(v, int | float | Fraction) and v > 0)
_at_least_one = Rule("must be a number of at least 1", lambda v: isinstance(v, int | float | Fraction) and v >= 1)


def _steps(*values: float) -> Any:
    return field(default=values, converter=as_tuple, validator=_rising)


def _number(default: Any, rule: Rule) -> Any:
    return field(default=default, validator=rule)


@frozen(kw_only=True, repr=False)
class SearchParameters:
    """How the search for one layer's optimum spends its effort.

    *Work* is CP-SAT's deterministic time, about a second of one core; unlike time it is the same in every run.
    A *trial bound* is the cost that one master problem may cost at most (`cpsat_pim.mapper.search.subspace_search`).

    Raises:
        ValueError: a value is out of range.
    """

    # --- Trial bounds of a subspace (subspace_search) ----------------------------------------------------------------

    #: Rising fractions of the lower bound by which trial bounds lie above it. The lower the bound, the smaller the
    #: master problem; steps about double, so at most twice the needed distance is tried.
    trial_steps: tuple[float, ...] = _steps(
        0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 3.0, 10.0, 100.0, 10_000.0
    )
    #: The same where the bounds of tiles alone raise the lower bound. Few, as a subspace gives way to others between.
    tile_steps: tuple[float, ...] = _steps(0.03, 0.3, 1.0, 100.0)
    #: Trial bounds, as fractions of the lower bound, where any mapping will do: so high that the first solve finds one.
    any_steps: tuple[float, ...] = _steps(3.0, 10.0, 100.0, 10_000.0)
    #: The same where only the cheapest tiles are candidates. Measured: of VGG-16's conv4_3 on hbm-pim, blended, a
    #: mapping that costs 169 is followed by one of 150 among these; from 0.3 on none below 169 is found.
    any_tile_steps: tuple[float, ...] = _steps(0.03, 0.1, 0.3, 1.0)
    #: Work below which a refuted trial bound says little: the next one is skipped.
    negligible_work: float = _number(0.1, not_negative_real)
    #: ... and the most that are skipped after several such ones in turn where tensors share a bank. Measured: the trial
    #: bounds of ResNet-50's layer1.0.conv2 on attacc had risen by 6 % after 11 solves and 20 CPU seconds; the best
    #: known mapping costs three times the first bound.
    skipped_steps: int = _number(3, positive)
    #: Share of the cutoff from which on the cutoff itself is the next trial bound. From 0 to below 1.
    near_cutoff: float = _number(0.5, share)
    #: A master problem is solved again with a lower trial bound, rather than built anew, while that is at least this
    #: share of the one that it was built for. From 0 to below 1.
    reuse_share: float = _number(0.9, share)
    #: Fraction of the lower bound above it up to which extents that returned are refuted, outside the split subspace.
    refutation_step: float = _number(0.02, not_negative_real)

    # --- Hard layers (subspace_search) -------------------------------------------------------------------------------

    #: Work of a whole layer from which on it is hard: then tiles are bounded in any case, and trial bounds rise by
    #: small steps. Any number: a negative one makes every layer hard.
    hard_work: float = _number(2.0, _real)
    #: Share of the time limit after which a layer that is not hard takes long, too: its streams may.
    long_share: float = _number(0.1, share)
    #: A hard layer's trial bound rises by this fraction of the lower bound ...
    hard_step: float = _number(0.05, not_negative_real)
    #: ... or by one part of so many of the distance to the cutoff, if that is more.
    hard_parts: int = _number(16, positive)
    #: Most work of one solve of a layer that is not hard; a solve that needs more makes the layer hard.
    solve_work: float = _number(6.0, _above_zero)
    #: ... and where tensors share a bank, as the first cutoffs are high: what was found by then lowers the next one.
    solve_work_in_banks: float = _number(0.5, _above_zero)
    #: Most work of one solve of a hard layer where tensors share a bank. After a solve that spent it without a proof
    #: the next one may take twice as much, ...
    hard_solve_work: float = _number(1.0, _above_zero)
    #: ... and the next trial bound rises by at most one part of so many of the distance to the cutoff; after another
    #: such solve by one part of so many of that. A light refutation doubles the part.
    unproven_parts: int = _number(4, positive)
    #: Where the distance is at most one part of so many of the cutoff, the next trial bound is the cutoff: the last few
    #: cycles are refuted as soon as half of them. Measured on a node of one PE (ResNet-50's layer2.0.conv1 and conv1
    #: for latency, 1-byte words): proven in 24 and 41 s, while bounds rose by ever fewer cycles for 60 without this.
    close_parts: int = _number(10_000, positive)
    #: Share of its most work from which on a solve has spent it, rather than ended for want of time.
    spent_share: float = _number(0.9, share)
    #: By so many tiles more a hard layer's trial bound rises at first. Measured on fc6 with tiny buffers: a fixed
    #: thousand took many solves of next to no work each, hence the two rules below.
    tiles_per_trial: int = _number(1000, positive)
    #: Work below which a refutation doubles the number of tiles.
    light_work: float = _number(1.0, not_negative_real)
    #: Work above which a solve halves it, and above which a master problem is built anew with a lower trial bound.
    heavy_work: float = _number(3.0, not_negative_real)
    #: Work that the bounds of one tile count as.
    tile_work: float = _number(1e-6, not_negative_real)
    #: Fraction of the lower bound up to which all tiles of a hard layer are enumerated at once (row-aligned subspace).
    lookahead_step: float = _number(0.5, not_negative_real)

    # --- Split loops (subspace_search) -------------------------------------------------------------------------------

    #: Where a layer takes long, what beats the incumbent by one part of so many is refuted first, so that the bound is
    #: close if the time ends.
    split_margin: int = _number(256, positive)
    #: Solves of the relaxation over all splits before loops at both levels get variables of their own: a few groups of
    #: extents refute all, or many do not.
    relaxed_split_solves: int = _number(3, not_negative)
    #: Solutions of such a solve whose extents are refuted one by one.
    relaxed_split_pool: int = _number(4, positive)

    # --- Turns of the subspaces (solve) ------------------------------------------------------------------------------

    #: Share of the time limit after which split loops no longer come last: the subspace of least bound has each turn.
    split_time_share: float = _number(0.5, share)
    #: Share of the time left that one turn may take while other subspaces are open.
    turn_share: float = _number(0.5, _above_zero)
    #: ... and the least turn, as a share of the time limit: ever shorter solves end without a proof.
    least_turn_share: float = _number(0.05, share)
    #: While there is no incumbent, the row-aligned subspace counts as if its lower bound were so many times higher,
    aligned_handicap: float = _number(1.2, _at_least_one)
    #: and this share of the time that is left passes at most before any mapping is sought,
    without_incumbent_share: float = _number(0.5, share)
    #: or so many seconds, if that is less.
    without_incumbent_seconds: float = _number(30.0, not_negative_real)
    #: Seconds past the time limit after which shape tables are given up.
    table_seconds: float = _number(0.3, not_negative_real)
    #: Seconds of the CPU, past the time limit, for the exact count of a mapping that is built without a search.
    built_seconds: float = _number(0.5, not_negative_real)
    #: Seconds for any mapping at all, and of one solve for it. Kept short: they may lie past the time limit.
    any_mapping_seconds: float = _number(6.0, not_negative_real)
    any_solve_seconds: float = _number(5.0, not_negative_real)

    # --- One solve by CP-SAT (solver) --------------------------------------------------------------------------------

    #: Solutions of a solve that are kept, best ones first.
    pool_size: int = _number(8, positive)
    #: So many solutions that each close less than this share of the gap: the solve is begun again with a binary search
    #: of the objective, as CP-SAT may otherwise lower the cost by one at a time.
    creeping_solutions: int = _number(64, positive)
    creeping_share: float = _number(0.05, not_negative_real)
    #: Conflicts of that binary search in the lower half before it is given up.
    halving_conflicts: int = _number(20, positive)
    #: A solve with so many conflicts is begun again with other parameters of CP-SAT, in turns, each round with so many
    #: times as many. Measured: one in some hundred solves did not end with the first parameters; with saved phases
    #: these take 0.25 s (AlexNet's conv4 with many banks, ResNet-50's layer3.0.downsample with tiny buffers).
    restart_conflicts: int = _number(5000, positive)
    restart_growth: int = _number(4, positive)

    # --- Tile enumeration (bounds.tile_bounds) -----------------------------------------------------------------------

    #: Tiles, and sets of tiles, that are bounded at most for the lower bound of a subspace ...
    bound_tiles: int = _number(30_000_000, positive)
    #: ... where only latency counts, also for the candidates of one trial bound: fewer, for too many of the tiles that
    #: keep the array busy have the same bound. Before a layer is hard, none if more are expected. Measured: CP-SAT's
    #: solves for `run resnet50` fall from 235 to 171, and the CPU seconds of all from 34 to 27.5; if tiles are
    #: enumerated however many are expected, to 30.
    tiles_latency: int = _number(700_000, positive)
    #: ... and none up to this share above the bound of spatial mappings (B1), where all of them have that bound.
    #: Measured: 27 of 60 s for ResNet-50's layer2.3.conv1 on upmem, whose first incumbent is within 0.02 %.
    busy_tiles: float = _number(0.01, not_negative_real)
    #: ... for the bound of a layer that is not solved (bounds.layer_bound). Measured: of 22 parts of ResNet-50 on
    #: stacked-3d-4x8, 10,000 reach 81 % of what the mapper proves in 10 to 20 s, in 0.07 s each; 100,000 92 % in
    #: 0.17 s, 300,000 94 % in 0.21 s, and more no more.
    layer_bound_tiles: int = _number(300_000, positive)
    #: ... and before, to find some tile, whose bound is the first trial bound. Measured: of nine such parts, in any
    #: layouts and in given ones, the first 10,000 tiles have the least bound of all in four of five.
    first_tiles: int = _number(20_000, positive)
    #: ... for the candidates of one trial bound.
    trial_tiles: int = _number(4_000_000, positive)
    #: ... for those that keep a budget of energy.
    budget_tiles: int = _number(1_000_000, positive)
    #: ... of a hard layer, for either.
    hard_tiles: int = _number(12_000_000, positive)
    #: Tiles of an enumeration that are kept; more are too many.
    kept_tiles: int = _number(200_000, positive)
    #: Tiles of a master problem that are listed one by one in a table; more are left to its variables.
    listed_tiles: int = _number(30_000, positive)
    #: Extents inside the DRAM's loops for which bounds of these loops are computed; for more there are none.
    dram_extents: int = _number(200_000, positive)
    #: Cheapest tiles that are the candidates for a first incumbent.
    incumbent_tiles: int = _number(50, positive)
    #: Share of the cutoff from which on all tiles up to the cutoff are enumerated at once, if they are needed anyway.
    #: Measured: of 25 s of enumerations for VGG-16's conv4_3 on hbm-pim, blended, 4 were of tiles enumerated twice.
    all_tiles_share: float = _number(0.9, share)
    #: For a lower bound, tiles up to one part of so many above the least bound are kept.
    bound_margin: int = _number(32, positive)

    # --- Master problem (model) --------------------------------------------------------------------------------------

    #: Tiles up to which a master problem is small: its linear relaxation is soon solved (solver).
    small_tiles: int = _number(500, _real)
    #: Boxes of a tensor whose bounds a master problem has in tables from the start, with one bank; for more, cuts add
    #: those of the boxes that occur.
    box_rows: int = _number(400, not_negative)
    #: The same with several banks: more, as the bounds of tiles are weak there.
    box_rows_in_banks: int = _number(1000, not_negative)
    #: Values of a column of a table up to which CP-SAT gets it as it is; columns of more are sums of such columns.
    #: Measured: ResNet-50's layer1.0.conv2 on attacc has six columns of 2,700 values, and more of 1,000.
    column_values: int = _number(400, positive)
    #: Pairs of values up to which the domain of a product is enumerated, and values up to which it is kept as a set;
    #: beyond, it is a range.
    product_pairs: int = _number(400_000, not_negative)
    product_values: int = _number(4_000, not_negative)

    # --- Completions and cuts (completion, cuts) ---------------------------------------------------------------------

    #: Fraction of the lower bound above it from which on an incumbent is far: all solutions of a solve are then
    #: completed.
    far_incumbent: float = _number(0.01, not_negative_real)
    #: Neighbours that are tried (search.descent): of a mapping that was built without a search, and of a hard layer's
    #: incumbent. Measured: Darknet-53's stage5.down on hbm-pim, for latency, keeps 26 % in place of 46 after 60 s,
    descent_first: int = _number(100, not_negative)
    descent_hard: int = _number(2000, not_negative)
    #: ... of each later incumbent of a hard layer. Measured: of ResNet-50's layer2.0.conv1 on hbm-pim, blended, 2,000
    #: of the first one found nothing below 10.09 million; a few hundred of a later one led from 9.08 to 8.63 million.
    descent_again: int = _number(300, not_negative)
    #: share of the time limit for each of them, which begin where a layer takes long;
    descent_share: float = _number(0.1, share)
    #: share of the time so far below which another one begins from the same incumbent, a half once it found nothing, a
    #: third after the next such one, and so on. Measured on hbm-pim, 20 s each of a busy processor: with both rules
    #: VGG-16's conv3_1 takes 66.6 million cycles in place of 215, conv5_1 32.6 in place of 54.6.
    descents_share: float = _number(0.3, share)
    #: The gap below which all but the first of the constructed mapping are left out.
    descent_gap: float = _number(0.05, share)
    #: By which share a neighbour may cost more than the best one at first, and how often a layout, or the block of I,
    #: is changed. Measured for three layers on hbm-pim, blended (VGG-16's conv4_3, BERT-Base's layer11.intermediate,
    #: ResNet-50's layer2.0.conv1), from the constructed mapping, two seeds, 6 CPU seconds each: with these the best
    #: ones cost 150 and 191, 29.1 and 27.5, 8.5 and 8.6; with a margin of 1.0 282 and 422, 29.1 and 30.1, 8.6 and 9.3.
    #: With a margin of 0.1 above the last one, and a new block each time, 204, 33.2 and 9.3 (one seed).
    descent_margin: float = _number(0.3, share)
    descent_flips: float = _number(0.1, share)
    #: Neighbours that are tried of a mapping that has no search (search.quick), and seconds for them. Measured: of 40
    #: parts of GoogLeNet on 4x8 nodes mappings of other parts cost 19 % more than what solves of 2 s find, and 4 % more
    #: after 100 neighbours, on average, in 0.25 s each; of 30 parts of MobileNetV2 10 and 6 %.
    quick_neighbours: int = _number(100, not_negative)
    quick_seconds: float = _number(1.0, not_negative_real)
    #: ... and so many mappings of other layers that fit, from which on none is built. Measured: of 74 parts on
    #: stacked-3d-4x8 mappings take 0.06 CPU seconds in place of 0.11, and cost the same on average.
    quick_alike: int = _number(8, not_negative)
    #: Loop orders evaluated for an incumbent; the loops of one level rarely have more permutations.
    orders_evaluated: int = _number(240, positive)
    #: ... and where the MACs draw a tensor of a shared bank from the DRAM: its stream takes 50 ms to count.
    orders_evaluated_drawn: int = _number(24, positive)
    #: Most loop orders over which a cut takes its minimum: 7!, all orders of seven loops of one level.
    orders_per_cut: int = _number(5040, positive)
    #: ... and where the MACs draw a tensor of a shared bank. With more, solutions are forbidden (C10), and a gap stays.
    orders_per_cut_drawn: int = _number(48, positive)
    #: Share of a solution's cost by which a cut raises it at most if the stream takes long to count and only energy
    #: matters. Measured: VGG-16's conv5_3 on gddr6-aim took 65 s for the cuts of nine bad solutions without it.
    cut_step: float = _number(0.05, not_negative_real)
    #: Scans of a stream, over all layouts, blocks and orders, up to which other solutions of the pool make cuts of it,
    #: too: 0.1 s.
    pool_scans: int = _number(1_000_000, not_negative)
    #: Scans of a stream as a share of those of the longest one up to which its cuts are made before the longest one is
    #: counted, where extents are refuted: W of AlexNet's conv4 on gddr6-aim takes seconds, and O's cut is enough.
    cheaper_share: float = _number(0.1, share)

    # --- Products of latency and energy (objectives.edp) -------------------------------------------------------------

    #: A range of energies is not divided where its ends differ by no more than this ratio: such a range is more often
    #: empty than worth a division.
    narrow_energy_ratio: Fraction = field(default=Fraction(103, 100), validator=_at_least_one)
    #: Share of the time left that one solve may take; and seconds that are too few to begin another one.
    product_solve_share: float = _number(0.25, _above_zero)
    product_min_seconds: float = _number(0.1, not_negative_real)

    # --- Second objectives (objectives.lexicographic) ----------------------------------------------------------------

    #: Share of the time limit that is kept for the second solve, if the first one takes all the rest.
    second_solve_share: float = _number(0.25, _above_zero)
    #: Seconds that a second solve may take in any case if nobody asked for it; else as many as the first one took.
    unasked_seconds: float = _number(5.0, not_negative_real)

    # --- Walks (search.ranking) --------------------------------------------------------------------------------------

    #: Last incumbents by the formula that are ranked by their walks in any case, and the share of the time limit in
    #: which earlier ones are, too. Measured: of seven incumbents of MobileNetV2's bottleneck1.project on stacked-3d the
    #: third one takes 20,373 cycles, the last four take 26,141 at least.
    incumbents_ranked: int = _number(4, _at_least_one)
    ranking_share: float = _number(0.05, share)
    #: Share of the time limit that is kept for the search by walks, if that by the formula takes all the rest and its
    #: incumbent costs more by its walk by the share `walk_error`.
    walk_share: float = _number(0.25, _above_zero)
    walk_error: float = _number(0.002, not_negative_real)

    # --- Padded layers (objectives.padding) --------------------------------------------------------------------------

    #: Shares of the time: of the limit, for lower bounds of all padded layers; of what is left, for one solve.
    padding_bound_share: float = _number(0.5, share)
    padding_solve_share: float = _number(0.5, share)
    #: Least seconds of a solve.
    padding_min_seconds: float = _number(1.0, not_negative_real)

    # --- Choices that layers share (network.shared) ------------------------------------------------------------------

    #: A solve under a partial choice gets one part of so many of a solve's time, as its layers are solved again.
    partial_choice_parts: int = _number(4, positive)
    #: Seconds of a solve when no time is left.
    shared_min_seconds: float = _number(0.1, not_negative_real)

    def __repr__(self) -> str:
        values = ((f.name, getattr(self, f.name), f.default) for f in fields(SearchParameters))
        return f"SearchParameters({', '.join(f'{name}={value!r}' for name, value, usual in values if value != usual)})"


#: Today's values, with which all published results were made.
DEFAULTS = SearchParameters()
