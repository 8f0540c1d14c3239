"""Integer affine expressions of named variables."""

from collections.abc import Iterable, Mapping

from attrs import frozen


@frozen
class Affine:
    """`constant + sum of coefficient * variable`; `terms` are sorted by name, without zero coefficients."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(name: str) -> "Affine":
        """One variable."""
        return Affine(0, ((name, 1),))

    @property
    def is_constant(self) -> bool:
        """Whether no variable remains."""
        return not self.terms

    @property
    def names(self) -> tuple[str, ...]:
        """The variables with a coefficient other than 0."""
        return tuple(name for name, _ in self.terms)

    def coefficient(self, name: str) -> int:
        """Of a variable; 0 if it does not occur."""
        return dict(self.terms).get(name, 0)

    def __add__(self, other: "Affine") -> "Affine":
        return _collect(self.constant + other.constant, (*self.terms, *other.terms))

    def scaled(self, factor: int) -> "Affine":
        """A multiple."""
        return _collect(self.constant * factor, ((name, value * factor) for name, value in self.terms))

    def substitute(self, values: Mapping[str, "Affine"]) -> "Affine":
        """The expression with variables replaced; those without a value stay."""
        total = Affine(self.constant)
        for name, value in self.terms:
            total += values.get(name, Affine.of(name)).scaled(value)
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value.

        Raises:
            KeyError: a variable has no value.
        """
        return self.constant + sum(value * values[name] for name, value in self.terms)

    def span(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """Smallest and largest value while each variable stays within [first, last]."""
        ends = [(value * ranges[name][0], value * ranges[name][1]) for name, value in self.terms]
        return self.constant + sum(map(min, ends)), self.constant + sum(map(max, ends))

    def __str__(self) -> str:
        parts = [name if value == 1 else f"{value}*{name}" for name, value in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _collect(constant: int, terms: Iterable[tuple[str, int]]) -> Affine:
    """Like terms added up."""
    sums: dict[str, int] = {}
    for name, value in terms:
        sums[name] = sums.get(name, 0) + value
    return Affine(constant, tuple(sorted((name, value) for name, value in sums.items() if value)))
