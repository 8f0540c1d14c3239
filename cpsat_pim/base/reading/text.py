"""Text to nodes: a YAML text is parsed within limits, and its aliases and merge keys are followed."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from cpsat_pim.base.reading.nodes import MAX_DEPTH, Complain, FileMistakes, mapping_like, mark_text, place, shown

#: Limits: bytes of a file, and values after expansion of aliases.
MAX_BYTES, MAX_VALUES = 2**20, 100_000


def file_text(path: Path) -> str:
    """Read the text of a file.

    Raises:
        FileMistakes: it cannot be read, is too large, or is not text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileMistakes([f"{path}: cannot be read: {error.strerror}"]) from error
    if len(data) > MAX_BYTES:
        raise FileMistakes([f"{path}: is larger than {MAX_BYTES >> 20} MiB"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileMistakes([f"{path}: is not a YAML text file"]) from error


def compose(file: str, text: str, complain: Complain) -> yaml.Node:
    """Parse a YAML text, resolve merge keys, and return the root. Repeated keys and tags are recorded as mistakes.

    Raises:
        FileMistakes: the text is not YAML, is empty, is nested too deeply, or expands to too many values.
    """
    try:
        loader = yaml.SafeLoader(text)
        loader.name = file
        root = loader.get_single_node()
        if root is None:
            raise FileMistakes([f"{file}: is empty"])
        _check_size(file, root)
        for node, path, problem in _node_mistakes(root):
            complain(node, path, problem)
        return _followed(root, complain)
    except yaml.MarkedYAMLError as error:
        where = mark_text(error.problem_mark or error.context_mark, file)
        raise FileMistakes([f"{where}: is not YAML: {error.problem}"]) from error
    except yaml.YAMLError as error:
        raise FileMistakes([f"{file}: is not a YAML text file"]) from error
    except RecursionError as error:
        raise FileMistakes([f"{file}: is nested too deeply"]) from error


def _check_size(file: str, root: yaml.Node) -> None:
    """Check the size of the tree after expansion of aliases, and that no node contains itself. Each node is measured
    once.
    """
    known: dict[int, tuple[int, int]] = {}

    def measured(node: yaml.Node) -> tuple[int, int]:
        """Return the number of values that a node expands to, and its depth of nesting."""
        if id(node) not in known:
            known[id(node)] = (0, 0)
            sizes, depths = zip((0, 0), *map(measured, _children(node)), strict=True)
            known[id(node)] = (1 + sum(sizes), max(depths) + (not isinstance(node, yaml.ScalarNode)))
        elif known[id(node)] == (0, 0):
            raise FileMistakes([f"{place(node)}: contains itself"])
        return known[id(node)]

    size, depth = measured(root)
    if size > MAX_VALUES:
        raise FileMistakes([f"{file}: expands to more than {MAX_VALUES} values"])
    if depth > MAX_DEPTH:
        raise FileMistakes([f"{file}: is nested too deeply"])


def _node_mistakes(node: yaml.Node) -> Iterator[tuple[yaml.Node, str, str]]:
    """Yield the mistakes in a tree: repeated keys, keys that are not plain scalars, and tags of applications."""
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.startswith("tag:yaml.org,2002:python"):
        yield node, "", f"has the tag {node.tag}, which means nothing here"
    seen: set[str] = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key, yaml.ScalarNode):
            yield key, "", "a key must be a word"
        elif key.value in seen:
            yield key, key.value, "is given twice"
        else:
            seen.add(key.value)
    for child in _children(node):
        yield from _node_mistakes(child)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value


def _followed(node: yaml.Node, complain: Complain) -> yaml.Node:
    """Return the node with `<<: *base` replaced by the keys of the base that the node lacks, and without
    invalid keys.
    """
    if isinstance(node, yaml.SequenceNode):
        items = [_followed(item, complain) for item in node.value]
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark)
    if not isinstance(node, yaml.MappingNode):
        return node
    words = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode) and not _is_merge(key)]
    pairs = [(key, _followed(value, complain)) for key, value in words]
    for base in (base for key, value in node.value if _is_merge(key) for base in _bases(value, complain)):
        names = {key.value for key, _ in pairs}
        pairs += [pair for pair in base.value if pair[0].value not in names]
    return mapping_like(pairs, node)


def _bases(node: yaml.Node, complain: Complain) -> Iterator[yaml.MappingNode]:
    """Yield the mappings that a merge key names; of several the first has precedence."""
    for base in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if isinstance(base, yaml.MappingNode):
            yield _followed(base, complain)
        else:
            complain(base, "<<", f"must be a mapping (got {shown(base)})")


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.style is None
