"""The time of a statement on the host: products by AttAcc's published formula, all others by their roofline.

The roofline is the longer of the operations over the host's rate and of the bytes over its bandwidth, both with the
published efficiencies (`host.hosts`). Statements are not fused: each reads its operands from memory and writes its
result there. Every operation of the language counts as one.
"""

from math import ceil, prod

from cpsat_pim.compiler.chain.statements import Part
from cpsat_pim.compiler.host import Host, Product, product_seconds
from cpsat_pim.compiler.language import Expression, Kernel, KernelMistake, Operation, Read, Statement
from cpsat_pim.compiler.language.ir import ASSIGN
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS, SHARED

PRODUCT, ROOFLINE = "attacc_simulator's formula of a product", "roofline"


def host_time(part: Part, host: Host, element_bytes: int) -> tuple[int, str]:
    """Picoseconds of a statement on the host, and the name of the formula."""
    product = _product(part, element_bytes)
    if product is not None:
        return ceil(product_seconds(host, product) * 1e12), PRODUCT
    return roofline_ps(host, operations_of(part.statement), moved_bytes(part, element_bytes)), ROOFLINE


def _product(part: Part, element_bytes: int) -> Product | None:
    """The product of matrices that a statement is, or None."""
    try:
        contraction = contraction_of(part.kernel, part.statement)
    except KernelMistake:
        return None
    if contraction.inputs is None or 0 in contraction.extents or part.adds:
        return None
    extents = contraction.extents
    batch = extents[BATCH]
    return Product(extents[SHARED], extents[OUTPUTS], extents[DEPTH], batch, batch == 1, element_bytes)


def roofline_ps(host: Host, operations: int, moved: int) -> int:
    """Picoseconds of operations and of bytes from and to memory, whichever takes longer."""
    computing = operations / (host.flops * host.compute_efficiency)
    moving = moved / (host.memory_bandwidth * host.memory_efficiency)
    return ceil(max(computing, moving) * 1e12)


def operations_of(statement: Statement) -> int:
    """Operations of all points of the loops; a sum or maximum is one more a point."""
    points = prod(loop.extent for loop in statement.loops)
    return points * (_operations(statement.value) + (statement.update != ASSIGN))


def _operations(value: Expression) -> int:
    return 1 + sum(map(_operations, value.operands)) if isinstance(value, Operation) else 0


def moved_bytes(part: Part, element_bytes: int) -> int:
    """Bytes that are read, each access once, and written; an updated target with values from before is read as well."""
    statement = part.statement
    moved = [*dict.fromkeys(statement.reads), statement.target]
    if statement.update != ASSIGN:
        moved.append(statement.target)
    return element_bytes * sum(_elements(part.kernel, statement, access) for access in moved)


def result_elements(part: Part) -> int:
    """Elements that a statement writes, at most."""
    return _elements(part.kernel, part.statement, part.statement.target)


def _elements(kernel: Kernel, statement: Statement, access: Read) -> int:
    """Elements that an access touches: the points of its own loops, at most the tensor."""
    names = {name for index in access.indices for name in index.names}
    points = prod(loop.extent for loop in statement.loops if loop.variable in names)
    return min(points, prod(kernel.tensor(access.tensor).extents))
