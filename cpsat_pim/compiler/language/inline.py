"""Inlining one kernel into another."""

from collections.abc import Mapping, Sequence

from attrs import evolve

from cpsat_pim.compiler.language.affine import Affine
from cpsat_pim.compiler.language.ir import Expression, Kernel, Operation, Read, Statement, Tensor


def inlined(
    callee: Kernel, arguments: Sequence[str], tensors: Mapping[str, Tensor], result: str, call: int
) -> tuple[list[Tensor], list[Statement]]:
    """The local tensors and statements of a call, in the caller's names; `call` numbers them.

    Raises:
        ValueError: the arguments do not fit the parameters.
    """
    if len(arguments) != len(callee.parameters):
        raise ValueError(f"{callee.name} takes {len(callee.parameters)} tensors (got {len(arguments)})")
    sizes: dict[str, Affine] = {}
    for parameter, argument in zip(callee.parameters, arguments, strict=True):
        _unify(callee, parameter, tensors[argument], sizes)
    for size in callee.sizes:
        if size not in sizes:
            raise ValueError(f"size {size} of {callee.name} does not follow from the shapes of its arguments")
    names = {p.name: a for p, a in zip(callee.parameters, arguments, strict=True)}
    names |= {t.name: f"{result}.{t.name}" for t in callee.tensors if not t.is_parameter}
    names[callee.result] = result
    made = callee.substitute(sizes)
    local = [evolve(tensor, name=names[tensor.name]) for tensor in made.tensors if not tensor.is_parameter]
    return local, [_renamed(statement, names, call) for statement in made.statements]


def _unify(callee: Kernel, parameter: Tensor, argument: Tensor, sizes: dict[str, Affine]) -> None:
    """Learn the callee's sizes from the shape of an argument."""
    problem = f"{argument.name} does not fit parameter {parameter.name} of {callee.name}, whose shape is " + repr(
        " ".join(map(str, parameter.shape))
    )
    if len(parameter.shape) != len(argument.shape):
        raise ValueError(problem)
    for wanted, given in zip(parameter.shape, argument.shape, strict=True):
        if wanted.terms and wanted == Affine.of(wanted.names[0]) and wanted.names[0] not in sizes:
            sizes[wanted.names[0]] = given
        elif wanted.substitute(sizes) != given:
            raise ValueError(problem)


def _renamed(statement: Statement, names: Mapping[str, str], call: int) -> Statement:
    return evolve(
        statement,
        target=Read(names[statement.target.tensor], statement.target.indices),
        value=_renamed_value(statement.value, names),
        call=call,
    )


def _renamed_value(value: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(value, Read):
        return Read(names[value.tensor], value.indices)
    if isinstance(value, Operation):
        return Operation(value.name, tuple(_renamed_value(operand, names) for operand in value.operands))
    return value
