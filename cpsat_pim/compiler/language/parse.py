"""From Python's syntax tree to the kernel's representation."""

import ast
from collections.abc import Callable
from itertools import count
from typing import NoReturn

from attrs import evolve

from cpsat_pim.compiler.language.affine import Affine
from cpsat_pim.compiler.language.inline import inlined
from cpsat_pim.compiler.language.ir import (
    ADD,
    ASSIGN,
    FUNCTIONS,
    MAX,
    Constant,
    Expression,
    Extent,
    Kernel,
    Loop,
    Operation,
    Read,
    Statement,
    Tensor,
    reads_of,
)
from cpsat_pim.compiler.language.mistakes import mistake

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
STATEMENTS = "for loops, assignments, += and a final return"

#: Finds the kernel of a name, or None.
Finder = Callable[[str], Kernel | None]


def parse_function(function: ast.FunctionDef, file: str, find: Finder) -> Kernel:
    """The kernel that a function defines.

    Raises:
        KernelMistake: with line and column, at whatever the language does not have.
    """
    return _Parser(function, file, find).parse()


class _Parser:
    """Walks one function; what it has seen so far."""

    def __init__(self, function: ast.FunctionDef, file: str, find: Finder) -> None:
        self.function, self.file, self.find = function, file, find
        self.sizes: dict[str, None] = {}
        self.tensors: dict[str, Tensor] = {}
        self.statements: list[Statement] = []
        self.calls: list[str] = []
        self.loops: list[Loop] = []
        self.fresh = count()

    def parse(self) -> Kernel:
        """Signature, body, result."""
        self._read_parameters()
        body = [node for node in self.function.body if not _is_docstring(node)]
        if not body or not isinstance(body[-1], ast.Return):
            self._fail(self.function, f"{self.function.name} must end with return TENSOR")
        for node in body[:-1]:
            self._read_top(node)
        result = self._read_result(body[-1])
        self._check_result(result)
        return Kernel(
            self.function.name,
            tuple(self.sizes),
            tuple(self.tensors.values()),
            tuple(self.statements),
            result,
            tuple(self.calls),
        )

    # --- Signature ---------------------------------------------------------------------------------------------------

    def _read_parameters(self) -> None:
        given = self.function.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
            self._fail(self.function, 'parameters must be plain tensors with a shape such as "B N"')
        for argument in given.posonlyargs + given.args:
            self.tensors[argument.arg] = Tensor(argument.arg, self._shape_text(argument.annotation, argument))
        if self.function.returns is not None:  # the result may have sizes of its own
            self._shape_text(self.function.returns, self.function)

    def _shape_text(self, node: ast.expr | None, owner: ast.AST) -> tuple[Affine, ...]:
        """The extents that an annotation such as "B N+1 K" states."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self._fail(node or owner, 'expected a shape in quotes, such as "B N"')
        return tuple(self._extent_text(word, node) for word in node.value.split())

    def _extent_text(self, word: str, node: ast.expr) -> Affine:
        try:
            tree = ast.parse(word, mode="eval").body
        except SyntaxError:
            self._fail(node, f"{word!r} is not an extent")
        for name in ast.walk(tree):
            if isinstance(name, ast.Name):
                if not name.id[0].isupper():
                    self._fail(node, f"size {name.id} must begin with a capital letter")
                self.sizes.setdefault(name.id)
        return self._affine(ast.copy_location(tree, node), ())

    def _read_result(self, node: ast.stmt) -> str:
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Call):
            return self._read_call(value, None)
        if isinstance(value, ast.Name) and value.id in self.tensors:
            return value.id
        return self._fail(value or node, "expected the name of a tensor or a call of a kernel")

    def _check_result(self, result: str) -> None:
        if self.function.returns is None:
            return
        stated = self._shape_text(self.function.returns, self.function)
        shape = self.tensors[result].shape
        if stated != shape:
            got = " ".join(map(str, shape))
            self._fail(self.function.returns, f"the result has the shape {got!r}")

    # --- Statements --------------------------------------------------------------------------------------------------

    def _read_top(self, node: ast.stmt) -> None:
        """A statement outside all loops: it may also create a tensor or call a kernel."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and len(node.targets) == 1:
            self._read_definition(node.targets[0], node.value)
        else:
            self._read_statement(node)

    def _read_definition(self, target: ast.Name, value: ast.expr) -> None:
        if target.id in self.tensors:
            self._fail(target, f"{target.id} is already a tensor")
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            self._fail(value, "expected zeros(...), full(value, ...) or a call of a kernel")
        if value.func.id in ("zeros", "full"):
            self.tensors[target.id] = self._created(target.id, value)
        else:
            self._read_call(value, target.id)

    def _created(self, name: str, call: ast.Call) -> Tensor:
        arguments, fill = list(call.args), 0.0
        if isinstance(call.func, ast.Name) and call.func.id == "full":
            if not arguments:
                self._fail(call, "expected full(value, extent, ...)")
            fill = self._number(arguments.pop(0))
        if not arguments or call.keywords:
            self._fail(call, "expected at least one extent")
        return Tensor(name, tuple(self._affine(argument, ()) for argument in arguments), fill)

    def _number(self, node: ast.expr) -> float:
        value = self._expression(node)
        if isinstance(value, Operation) and value.name == "neg" and isinstance(value.operands[0], Constant):
            return -value.operands[0].value
        if not isinstance(value, Constant):
            self._fail(node, "expected a number")
        return value.value

    def _read_statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._read_loop(node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            self._append(node, node.target, ADD, self._expression(node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._read_assignment(node, node.targets[0])
        else:
            self._fail(node, f"unknown statement (the language has {STATEMENTS})")

    def _read_loop(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name) or node.orelse:
            self._fail(node, "expected for VARIABLE in range(EXTENT)")
        name = node.target.id
        if name in self._variables() or name in self.tensors or not name[0].islower():
            self._fail(node.target, f"loop variable {name} must be new and begin with a small letter")
        self.loops.append(self._loop(name, node.iter))
        for inner in node.body:
            self._read_statement(inner)
        self.loops.pop()

    def _loop(self, name: str, over: ast.expr) -> Loop:
        is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
        if not isinstance(over, ast.Call) or not is_range or not 1 <= len(over.args) <= 2 or over.keywords:
            self._fail(over, "expected range(stop) or range(start, stop)")
        bounds = [self._affine(argument, ()) for argument in over.args]
        return Loop(name, bounds[0] if len(bounds) == 2 else Affine(), bounds[-1])

    def _read_assignment(self, node: ast.Assign, target: ast.expr) -> None:
        """`y = value`; `y = y + value` is an addition and `y = max(y, value)` a maximum."""
        value = self._expression(node.value)
        if isinstance(target, ast.Subscript) and isinstance(value, Operation) and value.name in ("+", "max"):
            written = self._access(target)
            for own, other in (value.operands, value.operands[::-1]):
                if own == written and written not in reads_of(other):
                    self._append(node, target, ADD if value.name == "+" else MAX, other)
                    return
        self._append(node, target, ASSIGN, value)

    def _append(self, node: ast.stmt, target: ast.expr, update: str, value: Expression) -> None:
        if not isinstance(target, ast.Subscript):
            self._fail(target, "expected an element such as y[b, n]")
        written = self._access(target)
        if self.tensors[written.tensor].is_parameter:
            self._fail(target, f"{written.tensor} is a parameter and cannot be written")
        statement = Statement(tuple(self.loops), written, update, value, self._place(node))
        self._check_dependences(node, statement)
        self.statements.append(statement)

    def _check_dependences(self, node: ast.stmt, statement: Statement) -> None:
        """Iterations must be independent up to the order of a sum or maximum: they run on different cores."""
        tensor = statement.target.tensor
        if any(read.tensor == tensor and read != statement.target for read in statement.reads):
            self._fail(node, f"reads elements of {tensor} that other iterations write; write a new tensor instead")
        if statement.update != ASSIGN and any(read.tensor == tensor for read in statement.reads):
            self._fail(node, f"the added value must not depend on {tensor}")
        if statement.update == ASSIGN and statement.reduction_loops:
            lost = statement.reduction_loops[0].variable
            self._fail(node, f"every iteration of {lost} writes the same element; use += or max")

    def _place(self, node: ast.AST) -> str:
        return f"{self.file}:{getattr(node, 'lineno', 1)}:{getattr(node, 'col_offset', 0) + 1}"

    # --- Calls -------------------------------------------------------------------------------------------------------

    def _read_call(self, call: ast.Call, target: str | None) -> str:
        """Inline the kernel that is called; the tensor that holds its result."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        callee = self.find(name)
        if callee is None:
            self._fail(call, f"unknown kernel {name or ast.unparse(call.func)}")
        result = target or f"{name}_{next(self.fresh)}"
        arguments = [self._argument(argument) for argument in call.args]
        number = len(self.calls)
        try:
            tensors, statements = inlined(callee, arguments, self.tensors, result, number)
        except ValueError as error:
            self._fail(call, str(error))
        self.tensors.update((tensor.name, tensor) for tensor in tensors)
        self.statements += [evolve(statement, place=self._place(call)) for statement in statements]
        self.calls.append(name)
        return result

    def _argument(self, node: ast.expr) -> str:
        if isinstance(node, ast.Call):
            return self._read_call(node, None)
        if not isinstance(node, ast.Name) or node.id not in self.tensors:
            self._fail(node, "expected the name of a tensor")
        return node.id

    # --- Expressions -------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr) -> Expression:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return Constant(node.value)
        if isinstance(node, ast.Name) and node.id in self.sizes:
            return Extent(Affine.of(node.id))
        if isinstance(node, ast.Subscript):
            return self._access(node)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return Operation(OPERATORS[type(node.op)], (self._expression(node.left), self._expression(node.right)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return Operation("neg", (self._expression(node.operand),))
        if isinstance(node, ast.Call):
            return self._function(node)
        return self._fail(
            node, "unknown expression (expected numbers, elements, + - * / and " + _function_names() + ")"
        )

    def _function(self, node: ast.Call) -> Expression:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            self._fail(node, f"unknown function {name} (the language has {_function_names()})")
        if len(node.args) != FUNCTIONS[name] or node.keywords:
            self._fail(node, f"{name} takes {FUNCTIONS[name]} argument(s) (got {len(node.args)})")
        return Operation(name, tuple(self._expression(argument) for argument in node.args))

    def _access(self, node: ast.Subscript) -> Read:
        """`w[b, n]` or `w[b][n]`."""
        nodes: list[ast.expr] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Subscript):
            listed = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
            nodes = [*listed, *nodes]
            inner = inner.value
        if not isinstance(inner, ast.Name) or inner.id not in self.tensors:
            self._fail(inner, f"unknown tensor {ast.unparse(inner)}")
        rank = len(self.tensors[inner.id].shape)
        if len(nodes) != rank:
            self._fail(node, f"{inner.id} has {rank} dimension(s) (got {len(nodes)} indices)")
        return Read(inner.id, tuple(self._affine(index, self._variables()) for index in nodes))

    def _variables(self) -> tuple[str, ...]:
        return tuple(loop.variable for loop in self.loops)

    def _affine(self, node: ast.expr, variables: tuple[str, ...]) -> Affine:
        """An affine expression of sizes and the given loop variables."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return Affine(node.value)
        if isinstance(node, ast.Name):
            if node.id in variables or node.id in self.sizes:
                return Affine.of(node.id)
            self._fail(node, f"unknown name {node.id} in an index or extent")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._affine(node.operand, variables).scaled(-1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            return self._affine_pair(node, variables)
        return self._fail(node, f"{ast.unparse(node)} is not affine (expected sums and multiples of names)")

    def _affine_pair(self, node: ast.BinOp, variables: tuple[str, ...]) -> Affine:
        left, right = self._affine(node.left, variables), self._affine(node.right, variables)
        if isinstance(node.op, ast.Add | ast.Sub):
            return left + right.scaled(1 if isinstance(node.op, ast.Add) else -1)
        if left.is_constant or right.is_constant:
            return right.scaled(left.constant) if left.is_constant else left.scaled(right.constant)
        return self._fail(node, f"{ast.unparse(node)} is not affine (a product of two names)")

    def _fail(self, node: ast.AST, problem: str) -> NoReturn:
        raise mistake(self.file, node, problem)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _function_names() -> str:
    return ", ".join(FUNCTIONS)
