"""Schemas for editors: they accept what the readers accept, and refuse what an editor can know to be wrong."""

from importlib.resources import files
from pathlib import Path

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names
from cpsat_pim.base.reading.nodes import plain
from cpsat_pim.base.reading.reader import Reader
from cpsat_pim.base.reading.text import compose
from cpsat_pim.cli.schema import FILE_KINDS, schema_of
from cpsat_pim.workload.network import network_names

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

MAPPING = """
version: 1
arch: hbm-pim
network: resnet50
layers:
- name: fc
  shape: {C: 4, stride: [1, 1], psum_bytes: 32 bit}
  mapping:
    temporal: {DRAM: {K: 125}}
    stored: {ROW_BUFFER: "", GLOBAL_BUFFER: IW, PE: W}
    layout: {I: NHWGC, W: {mode: sequential, order: GKCSR}}
    input_block: {h: 1, w: 2}
    resident: {GLOBAL_BUFFER: {W: ""}}
"""
CONSTRAINTS = """
version: 1
spatial: {H: {C: 16}}
order: {DRAM: KPQ}
stored: {PE: {W: true}}
dataflow: WS
layers: {conv1: {layout: {I: {mode: row_aligned}}}}
"""
CHANGED = "version: 1\nextends: hbm-pim\nclock: 500 MHz\nhierarchy: {PE: {entries: 64 KiB, access_cost: 0.88 pJ/bit}}\n"
NAMELESS = "version: 1\nlayers: [{name: a}]\n"
PLAN = """
version: 1
base: {network: resnet50, arch.multicast: false}
grid: {objective: [energy], arch.hierarchy.PE.entries: {from: 1, to: 8, factor: 2}}
list: [{arch: hbm-pim, arch.clock: 1 GHz, seed: 3}]
sample: {count: 1, axes: {time_limit: [5, 7.5]}}
"""
VALID = [("mapping", MAPPING), ("constraints", CONSTRAINTS), ("arch", CHANGED)]
VALID += [("sweep", PLAN), ("network", NAMELESS)]
VALID += [("network", "version: 1\nextends: alexnet\nlayers: {conv1: {N: 8}}\n")]


def data(text):
    """A YAML text as the data that an editor sees."""
    return unwrapped(compose("f", text, Reader().complain))


def unwrapped(node):
    """Nodes as plain data."""
    if node.id == "mapping":
        return {key.value: unwrapped(value) for key, value in node.value}
    return [unwrapped(item) for item in node.value] if node.id == "sequence" else plain(node)


def mistakes(kind, text):
    """What the schema finds."""
    return [error.message for error in jsonschema.Draft202012Validator(schema_of(kind)).iter_errors(data(text))]


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_schemas_are_schemas(kind):
    """They obey the standard, and say which."""
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", [name for name in arch_names() if name != "default"])
def test_presets_obey_the_schema(name):
    """All machines that come with the package."""
    assert mistakes("arch", files("cpsat_pim.arch").joinpath("presets", f"{name}.yaml").read_text()) == []


@pytest.mark.parametrize("name", network_names())
def test_networks_obey_the_schema(name):
    """All networks that come with the package."""
    assert mistakes("network", files("cpsat_pim.workload").joinpath("networks", f"{name}.yaml").read_text()) == []


@pytest.mark.parametrize(("kind", "text"), VALID)
def test_valid_files_are_accepted_by_reader_and_schema(kind, text, tmp_path: Path):
    """Both are made of one description."""
    path = tmp_path / "f.yaml"
    path.write_text(text)
    FILE_KINDS[kind].read(path)
    assert mistakes(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("arch", "vault_count: 1"),
        ("arch", "version: 2"),
        ("arch", "version: 1\nvault_cont: 1"),
        ("arch", "version: 1\nvault_count: 0"),
        ("arch", "version: 1\npage_policy: shut"),
        ("arch", "version: 1\nactivation_energy: lots"),
        ("arch", "version: 1\nhierarchy: [{name: a}]"),
        ("arch", "version: 1\nextends: hbm-pim\nhierarchy: {PES: {}}"),
        ("network", "version: 1"),
        ("network", "version: 1\nlayers: []"),
        ("network", "version: 1\nlayers: [{P: 1}]"),
        ("network", "version: 1\nlayers: [{name: a, stride: [1]}]"),
        ("mapping", MAPPING.replace("DRAM", "DRM")),
        ("mapping", MAPPING.replace("PE: W", "PE: X")),
        ("mapping", MAPPING.replace('{W: ""}', "{W: X}")),
        ("constraints", CONSTRAINTS.replace("WS", "XS")),
        ("constraints", CONSTRAINTS.replace("C: 16", "C: -16")),
        ("sweep", PLAN.replace("seed: 3", "seed: -3")),
        ("sweep", PLAN.replace("arch.multicast", "arch..multicast")),
        ("sweep", PLAN.replace("[energy]", "[]")),
    ],
)
def test_mistakes_are_found_by_reader_and_schema(kind, text, tmp_path: Path):
    """An editor marks what the program would refuse."""
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"."):
        FILE_KINDS[kind].read(path)
    assert mistakes(kind, text)


def test_every_field_of_a_machine_is_in_the_schema():
    """A field that is added to the class is there at once."""
    properties = schema_of("arch")["properties"]
    assert set(properties) == {"version", "extends", *(a.name for a in attrs.fields(PIMArchitecture))}
