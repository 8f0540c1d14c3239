"""The dims whose size a model leaves open, and the sizes that the user binds them to."""

from collections.abc import Collection, Mapping


def check_bound(
    bind: Mapping[str, int],
    *namings: Collection[str],
    by_data: Collection[Collection[str]] = (),
    values: Collection[str] = (),
) -> None:
    """Check that every open dim is bound by one of its names, and that nothing else is bound.

    Args:
        bind: sizes by name.
        namings: the names of each open dim.
        by_data: the names of each size that data decide, which may be bound.
        values: the names of what has one value, which may be bound.

    Raises:
        ValueError: a dim is left open, or a name is that of none.
    """
    known = [name for names in (*namings, *by_data) for name in names]
    for name in bind:
        if name not in known and name not in values:
            there = _listed([*namings, *by_data, *((value,) for value in values)])
            raise ValueError(f"no open dim is named {name!r}, {there}")
    for name in known:
        if bind.get(name, 1) < 1:
            raise ValueError(f"the size {name!r} must be positive (got {bind[name]})")
    still_open = [names for names in namings if not set(names) & bind.keys()]
    if still_open:
        options = " ".join(f"--bind {name}=..." for name in dict.fromkeys(next(iter(names)) for names in still_open))
        raise ValueError(f"has open dims, bind them: {options}")


def _listed(namings: Collection[Collection[str]]) -> str:
    """Return the names of all dims; dims that share a symbol are listed together after it."""
    if not namings:
        return "all sizes are given"
    together: dict[str, dict[str, None]] = {}
    for names in namings:
        together.setdefault(next(iter(names)), {}).update(dict.fromkeys(names))
    return f"there are {', '.join(' or '.join(names) for names in together.values())}"
