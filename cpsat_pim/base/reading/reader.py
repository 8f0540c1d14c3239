"""The reader of a file: it collects mistakes with their positions, and hands each node to a kind of value."""

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, Protocol

import yaml

from cpsat_pim.base.reading.nodes import FileMistakes, from_plain, place, position

Schema = dict[str, Any]
#: Bytes per element and cycles per second, where they are known (see `units.amount_in`).
Scales = Mapping[str, Fraction]
#: A path within a file, and the mistake there.
Mistake = tuple[str, str]

#: What `read` returns for a value after recording a mistake.
WRONG: Any = object()


class Reader:
    """Collects the mistakes of a file, and remembers the position of each value."""

    def __init__(self) -> None:
        #: A cache for kinds: values that are read once although the file names them often.
        self.known: dict[Any, Any] = {}
        #: The paths of the mappings that are being read, outermost first, and the keys that each may have.
        self.around: list[tuple[str, Collection[str]]] = []
        self._problems: list[tuple[tuple[str, int, int], str]] = []
        self._places: dict[str, yaml.Node] = {}

    def enter(self, node: yaml.Node, path: str) -> None:
        """Record that the value at `path` stands at this node."""
        self._places[path] = node

    def complain(self, node: yaml.Node, path: str, problem: str) -> Any:
        """Record a mistake at a node and return `WRONG`. All mistakes are raised together at the end."""
        where = ": ".join(filter(None, (place(node), path, problem)))
        self._problems.append((position(node), where))
        return WRONG

    def complain_at(self, path: str, problem: str) -> None:
        """Record a mistake at a path. If the file lacks the path, the message names the position of its nearest
        ancestor.
        """
        around = path
        while around not in self._places:
            around = re.sub(r"(^|\.|\[)[^.\[]*$", "", around)
        self.complain(self._places[around], path, problem)

    @property
    def count(self) -> int:
        """The number of mistakes so far."""
        return len(self._problems)

    def read(self, root: yaml.Node, kind: "Kind") -> Any:
        """Read a whole file and return its value.

        Raises:
            FileMistakes: all mistakes of the file, in order of position.
        """
        value = kind.read(self, root, "", {})
        if self._problems:
            lines = [line for _, line in sorted(self._problems, key=lambda problem: problem[0])]
            raise FileMistakes(dict.fromkeys(lines))
        return value


class Kind(Protocol):
    """A kind of value: it reads a node and has a JSON Schema. `partial` asks for the schema of a change, where no key
    is required.
    """

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Read a node; return `WRONG` after recording a mistake."""

    def schema(self, partial: bool = False) -> Schema:
        """Return the JSON Schema."""


def read_plain(file: str, data: Any, kind: Kind) -> Any:
    """Read a value from plain data, such as a part of a JSON file.

    Raises:
        FileMistakes: all mistakes in the data.
    """
    return Reader().read(from_plain(file, data), kind)


def joined(path: str, name: str) -> str:
    """Join two parts of a path: `pe_array` and `array_shape` become `pe_array.array_shape`."""
    return f"{path}.{name}" if path and name else path or name
