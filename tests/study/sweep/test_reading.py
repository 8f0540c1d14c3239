"""Plans: the points that they describe, and their mistakes, all reported at once."""

import textwrap
from pathlib import Path

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.cli.program import build_parser
from cpsat_pim.study.sweep.plan import Plan
from cpsat_pim.study.sweep.reading import MAX_POINTS, read_plan
from tests.study.sweep.conftest import WritePlan


def problems(path: Path) -> list[str]:
    """What is wrong with a plan, each line with its place, of which the file's name is cut off here."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines), lines
    return [line.removeprefix(f"{path}:") for line in lines]


def assert_starts(lines: list[str], starts: list[str]) -> None:
    """Each line starts as it should."""
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


def settings(plan: Plan) -> list[dict[str, object]]:
    """What sets the points apart."""
    return [point.settings for point in plan.points]


# --- Points ----------------------------------------------------------------------------------------------------------


def test_grid_has_every_combination_the_last_axis_fastest(write_plan: WritePlan) -> None:
    """2 x 2; the base holds for all."""
    plan = read_plan(
        write_plan(text='base: {network: "K=3", time_limit: 7}\ngrid: {arch: [default, hbm-pim], seed: [1, 2]}')
    )
    assert settings(plan) == [
        {"arch": "default", "seed": 1},
        {"arch": "default", "seed": 2},
        {"arch": "hbm-pim", "seed": 1},
        {"arch": "hbm-pim", "seed": 2},
    ]
    assert [(p.arch.name, p.options.seed) for p in plan.points][2] == ("hbm-pim", 1)
    assert {(p.options.time_limit, p.objective.kind, p.network.layers[0].workload.K) for p in plan.points} == {
        (7, "energy", 3)
    }


def test_constraints_are_those_of_a_file_beside_the_plan(write_plan: WritePlan, tmp_path: Path) -> None:
    """Each layer has its own constraints, as in a run; unknown layers are reported."""
    (tmp_path / "c.yaml").write_text("version: 1\ndataflow: WS\nlayers: {conv1: {dataflow: OS}}")
    text = "base: {network: resnet50, layers: 'conv1,fc'}\ngrid: {constraints: [c.yaml]}"
    (point,) = read_plan(write_plan(text=text)).points
    assert [job.constraints.dataflow for job in point.jobs()] == ["OS", "WS"]
    assert point.settings == {"constraints": "c.yaml"}
    found = problems(write_plan(text='base: {network: "K=1"}\nlist: [{constraints: c.yaml}, {constraints: d.yaml}]'))
    assert_starts(found, [f"3:45: list[1].constraints: {tmp_path / 'd.yaml'}: cannot be read"])
    (line,) = problems(write_plan(text='base: {network: "K=1"}\nlist: [{constraints: c.yaml}]'))
    assert "list[0].constraints: K=1: no layer is named 'conv1'" in line


def test_what_nobody_sets_is_as_on_the_command_line(write_plan: WritePlan) -> None:
    """Time limit, seed and objective of a point without them, which have their own places in the code."""
    (point,) = read_plan(write_plan(text='list: [{network: "K=1"}]')).points
    there = build_parser().parse_args(["run", "resnet50"])
    assert (point.options.time_limit, point.options.seed) == (there.time_limit, there.seed)
    assert (point.objective.kind, point.arch.name) == (there.objective, there.arch)


def test_list_has_its_entries_and_parts_add_up(write_plan: WritePlan) -> None:
    """Grid, then list; an entry overrides the base; `name` is the file's stem."""
    text = "base: {network: alexnet, layers: conv1}\ngrid: {seed: [5]}\n"
    text += "list: [{layers: 'fc8, fc6', objective: blended}]"
    plan = read_plan(write_plan(text=text, name="mine"))
    assert plan.name == "mine"
    assert [[node.name for node in point.network.layers] for point in plan.points] == [["conv1"], ["fc6", "fc8"]]
    assert [point.objective.kind for point in plan.points] == ["energy", "blended"]


def test_ranges_go_by_steps_or_factors_up_to_their_end(write_plan: WritePlan) -> None:
    """3, 5, 7 (9 > 8) and 4, 8, 16."""
    text = 'base: {network: "K=1"}\ngrid:\n  seed: {from: 3, to: 8, step: 2}\n'
    assert [p.options.seed for p in read_plan(write_plan(text=text)).points] == [3, 5, 7]
    text = 'base: {network: "K=1"}\ngrid:\n  seed: {from: 4, to: 16, factor: 2}\n'
    assert [p.options.seed for p in read_plan(write_plan(text=text)).points] == [4, 8, 16]


def test_fields_of_the_machine_take_other_values(write_plan: WritePlan) -> None:
    """The named field has the value, with its unit; the machine's name contains it; all other fields stay."""
    text = 'base: {network: "K=1"}\ngrid:\n  arch.hierarchy.GLOBAL_BUFFER.entries: [1 KiB]\n  arch.multicast: [false]\n'
    (point,) = read_plan(write_plan(text=text)).points
    (plain,) = read_plan(write_plan(1)).points
    assert (point.arch.hierarchy[1].entries, point.arch.multicast) == (1024, False)
    assert point.arch.name == "default (hierarchy.GLOBAL_BUFFER.entries=1 KiB, multicast=false)"
    assert (point.arch.hierarchy[0], point.arch.dram_timings) == (plain.arch.hierarchy[0], plain.arch.dram_timings)


def test_times_follow_the_clock_as_in_a_file(write_plan: WritePlan, tmp_path: Path) -> None:
    """Another clock, another number of cycles in 14 ns; what the machine's file leaves out can be changed, too."""
    (tmp_path / "fast.yaml").write_text("version: 1\nextends: hbm-pim\nclock: 1000 MHz\n")
    (tmp_path / "bare.yaml").write_text("version: 1\n")
    machines = ("hbm-pim, arch.clock: 1000 MHz", "fast.yaml", "hbm-pim", "bare.yaml, arch.pe_array.array_shape.h: 3")
    text = 'base: {network: "K=1"}\nlist:\n' + "".join(f"- {{arch: {machine}}}\n" for machine in machines)
    changed, fast, slow, bare = (point.arch for point in read_plan(write_plan(text=text)).points)
    assert changed.dram_timings == fast.dram_timings
    assert changed.dram_timings.tRCDRD > slow.dram_timings.tRCDRD
    assert (bare.pe_array.array_shape.h, bare.pe_array.array_shape.w) == (3, PIMArchitecture().pe_array.array_shape.w)


def test_files_are_found_from_where_the_plan_is(write_plan: WritePlan, tmp_path: Path) -> None:
    """A machine and a network beside the plan, whatever the current directory is."""
    (tmp_path / "m.yaml").write_text("version: 1\npage_policy: closed\n")
    (tmp_path / "n.yaml").write_text("version: 1\nlayers:\n- {name: a, K: 4}\n")
    (point,) = read_plan(write_plan(text="list:\n- {arch: m.yaml, network: n.yaml}")).points
    assert (point.arch.page_policy, point.network.layers[0].workload.K) == ("closed", 4)


def test_a_plan_may_extend_another(write_plan: WritePlan, tmp_path: Path) -> None:
    """Settings and axes are added or replaced, a list of values by a range, too; its files are found beside it."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "m.yaml").write_text("version: 1\npage_policy: closed\n")
    text = "version: 1\nbase: {network: 'K=1'}\ngrid: {arch: [m.yaml], seed: [7, 8]}\n"
    (tmp_path / "other" / "base.yaml").write_text(text)
    own = "extends: other/base.yaml\nbase: {time_limit: 3}\ngrid: {seed: {from: 1, to: 2, step: 1}, beta: [5]}"
    plan = read_plan(write_plan(text=own, name="mine"))
    assert (plan.name, [point.options.seed for point in plan.points]) == ("mine", [1, 2])
    assert {(p.arch.page_policy, p.options.time_limit) for p in plan.points} == {("closed", 3)}
    assert settings(plan)[0] == {"arch": "m.yaml", "seed": 1, "beta": 5}


SAMPLE = 'base: {{network: "K=1"}}\nsample: {{count: {}, seed: {}, axes: {{seed: {}, arch: [default, hbm-pim]}}}}'


def test_samples_are_the_same_for_the_same_seed(write_plan: WritePlan) -> None:
    """Ten of 200 combinations: different among themselves, equal for equal seeds, others for another seed."""
    axis = "{from: 1, to: 100, step: 1}"
    first, again, other = (settings(read_plan(write_plan(text=SAMPLE.format(10, s, axis)))) for s in (7, 7, 8))
    assert first == again != other
    assert len({str(s) for s in first}) == 10


def test_samples_do_not_change_with_python_or_this_program(write_plan: WritePlan) -> None:
    """Places are floor(random() * size), axis by axis: the Mersenne Twister of seed 1 gives .134, .847, .764, .255."""
    plan = read_plan(write_plan(text=SAMPLE.format(2, 1, "{from: 0, to: 9, step: 1}")))
    assert settings(plan) == [{"seed": 1, "arch": "hbm-pim"}, {"seed": 7, "arch": "default"}]


def test_a_sample_of_everything_has_everything_once(write_plan: WritePlan) -> None:
    """Six of 3 x 2."""
    plan = read_plan(write_plan(text=SAMPLE.format(6, 0, "[1, 2, 3]")))
    drawn = sorted((s["seed"], s["arch"]) for s in settings(plan))
    assert drawn == [(i, arch) for i in (1, 2, 3) for arch in ("default", "hbm-pim")]


def test_the_plan_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    """2 objectives x 3 sizes, one of a list, 20 of a sample."""
    page = (Path(__file__).parents[3] / "docs" / "sweep.md").read_text()
    text = textwrap.dedent("    version: 1\n" + page.partition("    version: 1\n")[2].partition("\n\n")[0])
    (tmp_path / "plan.yaml").write_text(text)
    (tmp_path / "mine.yaml").write_text("version: 1\n")
    plan = read_plan(tmp_path / "plan.yaml")
    assert (plan.name, len(plan.points)) == ("buffers", 2 * 3 + 1 + 20)


# --- Mistakes --------------------------------------------------------------------------------------------------------


def test_all_mistakes_are_told_at_once(write_plan: WritePlan) -> None:
    """Each with its path, what is wrong and what was there."""
    text = """
nmae: x
base: {network: resnet5, time_limit: 0, layers: 3}
grid:
  arch: [default, hbm-pin]
  objective: [speed]
  seeds: [1]
  alpha: []
list:
- 7
- {beta: .nan}
sample: {count: 0, axes: {seed: [1]}}
"""
    starts = [
        "3:1: nmae: unknown key; did you mean 'name'?",
        "4:17: base.network: unknown network 'resnet5'; did you mean",
        "4:38: base.time_limit: must be a positive number of at most 1e7 (got 0)",
        "4:49: base.layers: must be names of layers",
        "6:19: grid.arch[1]: unknown architecture 'hbm-pin'; did you mean 'hbm-pim'?",
        "7:15: grid.objective[0]: must be one of latency, energy, blended, edp (got speed)",
        "8:3: grid.seeds: unknown key; did you mean 'seed'?",
        "9:10: grid.alpha: must be a list of values",
        "11:3: list[0]: must be a mapping of fields (got 7)",
        "12:10: list[1].beta: must be a number from 0 to 1e9 (got .nan)",
        "13:17: sample.count: must be a positive integer (got 0)",
    ]
    assert_starts(problems(write_plan(text=text)), starts)


def test_points_that_cannot_be_are_told_at_once(write_plan: WritePlan) -> None:
    """What is right by itself but not together; each once, however many points have it."""
    text = """
base: {network: alexnet}
grid:
  seed: [1, 2, 3]
  arch.page_policy: [open, shut]
  arch.hierarchy.CACHE.entries: [1]
list:
- {layers: "conv1,conv9"}
- {objective: blended, alpha: 0, beta: 0}
- arch.hierarchy.PE.entrees: 3
- {objective: edp, padding: 0.1}
"""
    starts = [
        '6:28: grid.arch.page_policy[1]: page_policy: must be one of open, closed (got "shut")',
        "7:34: grid.arch.hierarchy.CACHE.entries[0]: CACHE: what is extended has no such item; there are PE,",
        "9:12: list[0].layers: alexnet: no layer is named 'conv9'; did you mean",
        "10:3: list[1]: objective: alpha and beta must be at least 0 and not both 0",
        "11:30: list[2].arch.hierarchy.PE.entrees: hierarchy[0].entrees: unknown key; did you mean 'entries'?",
        "12:29: list[3].padding: must be 0 for edp",
    ]
    assert_starts(problems(write_plan(text=text)), starts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "is not YAML"),
        ("list: [{network: 'K=1'}]\nversion: 1", "version: is given twice"),
        ("grid: {seed: [1], seed: [2]}\nbase: {network: 'K=1'}", "seed: is given twice"),
        ("list: &a [*a]", "contains itself"),
        ("list: " + "[" * 3000, "nested too deeply"),
        ("grid:\n\tseed: [1]", "is not YAML"),
        ("base: {network: 'K=1'}", "must have at least one of grid, list, sample"),
        ("list: []", "list: must be a list of at least one point"),
        ("grid: {}", "points: must have at least one point"),
        ("list: [{seed: 1}]", "list[0].network: is missing"),
        ("list: [{network: 'K=0'}]", "list[0].network: shape: K must be a positive integer"),
        ("list: [{network: [resnet50]}]", "list[0].network: must be text"),
        ("list: [{network: 'K=1', seed: 1.5}]", "list[0].seed: must be an integer from 0"),
        ("list: [{network: 'K=1', time_limit: 1e999}]", "list[0].time_limit: must be a number below 2^62"),
        ("list: [{network: 'K=1', arch.hierarchy.PE.entries: -5}]", "hierarchy[0].entries: must be a positive integer"),
        ("list: [{network: 'K=1', arch.hierarchy.PE.entries: {a: 1}}]", "must be a number, text"),
        ("list: [{network: 'K=1', arch.hierarchy.PE.access_cost: .nan}]", "must be a finite number"),
        ("list: [{network: 'K=1', arch..x: 1}]", "list[0].arch..x: unknown key"),
        ("list: [{network: 'K=1', 7: 1}]", "list[0].7: unknown key"),
        ("grid: {seed: {to: 1, step: 1}}", "grid.seed.from: is missing"),
        ("grid: {objective: {from: 1, to: 3, step: 1}}", "grid.objective: must be one of latency"),
        ("grid: {seed: {from: 5, to: 1, step: 1}}", "grid.seed: must go up"),
        ("grid: {seed: {from: 0, to: 8, factor: 2}}", "grid.seed: must go up"),
        ("grid: {seed: {from: 1, to: 8}}", "grid.seed: must have either step or factor"),
        ("grid: {seed: {from: 0, to: 1000000000000, step: 1}}", f"at most {MAX_POINTS:,} values"),
        (
            "grid: {seed: {from: 0, to: 999, step: 1}, alpha: {from: 0, to: 999, step: 1}}",
            f"must have at most {MAX_POINTS:,} points",
        ),
        ("sample: {count: 3, axes: {seed: [1, 2]}}", "sample.count: must be at most 2, as many as there are comb"),
        ("list: [{network: nowhere.yaml}]", "cannot be read"),
        ("list: [{network: 'K=1', seed: " + "9" * 5000 + "}]", "must be a number below 2^62"),
    ],
)
def test_a_mistake_is_reported(write_plan: WritePlan, text: str, message: str) -> None:
    """One line, without an exception of another kind."""
    lines = problems(write_plan(text=text))
    assert len(lines) == 1
    assert message in lines[0], lines


@pytest.mark.parametrize("version", ["", "version: 2\n", "version: true\n", "version: 1.5\n"])
def test_a_plan_of_another_version_is_refused(tmp_path: Path, version: str) -> None:
    """Missing, later, or no integer."""
    path = tmp_path / "p.yaml"
    path.write_text(f"{version}list: [{{network: 'K=1'}}]\n")
    (line,) = problems(path)
    assert "version: " in line


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Nothing there, a directory, and bytes that are no text."""
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "folder.yaml").mkdir()
    for path in (tmp_path / "nothing.yaml", tmp_path / "folder.yaml", tmp_path / "bytes.yaml"):
        assert len(problems(path)) == 1


def test_a_network_s_parameters_are_settings(write_plan: WritePlan, tmp_path: Path) -> None:
    """An axis over the batch, a fixed prompt: rows and names follow; unknown names and bound networks are told."""
    text = "version: 1\nparameters: {batch: 1, prompt: 2}\nlayers: [{name: fc, N: batch, P: prompt, C: 4}]\n"
    (tmp_path / "net.yaml").write_text(text)
    plan = read_plan(write_plan(text="base: {network: net.yaml, network.prompt: 3}\ngrid: {network.batch: [1, 8]}"))
    sizes = [(point.network.layers[0].workload.N, point.network.layers[0].workload.P) for point in plan.points]
    assert sizes == [(1, 3), (8, 3)]
    assert [point.network.name for point in plan.points] == ["net (prompt=3, batch=1)", "net (prompt=3, batch=8)"]
    (line,) = problems(write_plan(text="base: {network: net.yaml}\ngrid: {network.bach: [1]}"))
    assert "no parameter is named 'bach'; did you mean 'batch'?" in line
    (line,) = problems(write_plan(text='base: {network: "K=3"}\ngrid: {network.batch: [1]}'))
    assert "grid.network.batch[0]: a shape has no parameters" in line
