"""The statements of a kernel, each as a kernel of its own: its parameters are what it reads."""

from attrs import evolve, frozen

from cpsat_pim.compiler.language import Constant, Expression, Extent, Kernel, Operation, Read, Statement, Tensor
from cpsat_pim.compiler.language.ir import ADD

#: Operations that are written between their operands.
INFIX = "+-*/"


@frozen
class Part:
    """A statement of a bound kernel.

    `kernel`: the statement alone; its target starts from zeros. `adds`: the statement adds to values that are there
    before, so that the host adds what the commands deliver. `versions`: for every tensor read, the number of the
    last statement that wrote it, or -1.
    """

    number: int
    kernel: Kernel
    target: str
    adds: bool
    versions: dict[str, int]

    @property
    def statement(self) -> Statement:
        """The statement with its target renamed if it also reads it."""
        return self.kernel.statements[0]

    @property
    def text(self) -> str:
        """The statement as the kernel language has it."""
        return format_statement(evolve(self.statement, target=Read(self.target, self.statement.target.indices)))


def parts_of(bound: Kernel) -> tuple[Part, ...]:
    """The statements of a kernel with numbers for its sizes, in their order."""
    writers: dict[str, int] = {}
    parts = []
    for number, statement in enumerate(bound.statements):
        target = statement.target.tensor
        is_fresh = target not in writers and bound.tensor(target).fill == 0
        versions = {read.tensor: writers.get(read.tensor, -1) for read in statement.reads}
        kernel = _alone(bound, number, statement)
        parts.append(Part(number, kernel, target, statement.update == ADD and not is_fresh, versions))
        writers[target] = number
    return tuple(parts)


def _alone(bound: Kernel, number: int, statement: Statement) -> Kernel:
    """The kernel of one statement; a target that the statement also reads gets another name."""
    read = tuple(dict.fromkeys(access.tensor for access in statement.reads))
    target = bound.tensor(statement.target.tensor)
    name = f"{target.name}.new" if target.name in read else target.name
    return Kernel(
        name=f"{bound.name} statement {number + 1}",
        sizes=(),
        tensors=(*(evolve(bound.tensor(tensor), fill=None) for tensor in read), Tensor(name, target.shape, 0.0)),
        statements=(evolve(statement, target=Read(name, statement.target.indices)),),
        result=name,
    )


def format_statement(statement: Statement) -> str:
    """A statement as text, without its loops."""
    target, value = _format(statement.target), _format(statement.value)
    return (
        f"{target} = max({target}, {value})" if statement.update == "max=" else f"{target} {statement.update} {value}"
    )


def _format(value: Expression) -> str:
    """An expression as text; operations within operations are bracketed."""
    if isinstance(value, Read):
        return f"{value.tensor}[{', '.join(map(str, value.indices))}]"
    if isinstance(value, Extent):
        return str(value.value)
    if isinstance(value, Constant):
        return f"{value.value:g}"
    operands = [_format(operand) for operand in value.operands]
    if value.name == "neg":
        return f"-{operands[0]}"
    if value.name in INFIX:
        bracketed = [isinstance(operand, Operation) and operand.name in INFIX for operand in value.operands]
        return f" {value.name} ".join(
            f"({text})" if is_infix else text for text, is_infix in zip(operands, bracketed, strict=True)
        )
    return f"{value.name}({', '.join(operands)})"
