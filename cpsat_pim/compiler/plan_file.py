"""Reads back the JSON of a plan: its kernel, its device, and the mappings that its commands follow from."""

from collections.abc import Mapping as Names
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.base.reading import read_json
from cpsat_pim.compiler.attention import AttentionMapping, attention_of, lower_attention
from cpsat_pim.compiler.broadcast import lowered_of
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.language import Kernel, KernelMistake, read_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.mapping import CLASSES, Mapping, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, SpreadMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.plan import FORMAT
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device, read_device
from tracesim.commands import Stream


@frozen
class PlannedCommands:
    """The commands of one channel of a plan, and the device that they are for."""

    stream: Stream
    device: Device


def read_commands(path: str | Path) -> PlannedCommands:
    """The commands of a plan that `compile --json` wrote.

    Raises:
        KernelMistake: the file is no such plan.
    """
    data = read_json(path)
    if isinstance(data, dict) and "statements" in data:
        raise KernelMistake(f"{path}: expected a plan of one statement (got {len(data['statements'])})")
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("mapping"), dict):
        raise KernelMistake(f"{path}: expected a plan that `compile --json` wrote")
    try:
        source = data["source"]
        kernel, device = read_kernel(source["kernel"]).bind(data["sizes"]), read_device(source["device"])
        mappings = {name: mapping_from(values) for name, values in data["mapping"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise KernelMistake(f"{path}: expected a plan that `compile --json` wrote ({error})") from None
    return PlannedCommands(_stream(kernel, device, mappings), device)


def _stream(kernel: Kernel, device: Device, mappings: Names[str, Any]) -> Stream:
    if not is_attacc_like(device):
        return lowered_of(kernel, mappings[kernel.name], device).program.stream
    target, attention = target_of(device), attention_of(kernel)
    if attention is not None:
        return lower_attention(attention, AttentionMapping(mappings["score"], mappings["context"]), target)
    return lower(mappings[kernel.name], contraction_of(kernel, kernel.statements[0]), target).stream


def mapping_from(data: Names[str, Any]) -> Mapping | BroadcastMapping | SpreadMapping:
    """The mapping that `plan.mapping_data` turned into JSON.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    values = dict(data)
    if "both_banks" in values:
        return ElementwiseMapping(**values)
    if "channels" in values:
        return SpreadMapping(**values)
    values["splits"] = tuple(values["splits"][name] for name in CLASSES)
    values["owners"] = tuple(UNUSED if name is None else CLASSES.index(name) for name in values["owners"])
    if "keeps_inputs" in values:
        return BroadcastMapping(**values)
    values["is_tree"] = {"depth": True, "outputs": False}[values.pop("lanes")]
    return Mapping(**values)
