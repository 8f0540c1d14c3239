"""A mapped layer as an explicit program, for code generators: loops, tiles, transfers, addresses (docs/export.md).

`build_program` makes the program of a mapping, `program_document` and `read_program` convert it to plain data and back,
`execute` runs it on numbers, `format_mlir` formats it as MLIR, `write_program` writes it to a file.
"""

from pathlib import Path

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.files import file_stem, write_json, write_text
from cpsat_pim.export.loops.build import build_program
from cpsat_pim.export.loops.document import program_document, read_program
from cpsat_pim.export.loops.execute import execute
from cpsat_pim.export.loops.mlir import format_mlir
from cpsat_pim.export.loops.program import LoopProgram
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

__all__ = [
    "LoopProgram",
    "build_program",
    "execute",
    "format_mlir",
    "program_document",
    "read_program",
    "write_program",
]


def write_program(
    layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, style: str, directory: str | Path
) -> Path:
    """Write `LAYER.loops.json` (style `loops`) or `LAYER.mlir` (`mlir`) to a directory, made if need be.

    Raises:
        OSError: it cannot be written.
    """
    program = build_program(layer, arch, mapping)
    Path(directory).mkdir(parents=True, exist_ok=True)
    path = Path(directory) / f"{file_stem(layer.name)}.{'mlir' if style == 'mlir' else 'loops.json'}"
    if style == "mlir":
        write_text(format_mlir(program), path)
    else:
        write_json(program_document(program), path)
    return path
