"""Every small change of meaning that one expression of a module allows, found in its syntax tree."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

COMPARE = {
    ast.LtE: ast.Lt, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = (
    ("max", "min"), ("maximum", "minimum"), ("amax", "amin"), ("argmax", "argmin"), ("ceil", "floor"), ("any", "all"),
    ("ROUND_CEILING", "ROUND_FLOOR"),
)  # fmt: skip
SWAPPED = {**dict(PAIRS), **{b: a for a, b in PAIRS}}
BACKWARDS = {"sorted", "argsort", "lexsort"}
DROPPED = {"sqrt", "abs", "square", "log1p", "expm1"}
RETURNED = {"bool": "not ({})", "float": "({}) * 1.01", "int": "({}) + 1"}


@dataclass(frozen=True)
class Mutant:
    """One change: which expression of which module becomes what."""

    area: str
    module: str  # below the package
    line: int
    before: str  # the lines, as they stand
    after: str  # the same lines, changed
    text: str  # the whole module, changed

    @property
    def key(self) -> str:
        """The changed module's content, by which a result is found again."""
        return hashlib.sha256(f"{self.module}\n{self.text}".encode()).hexdigest()[:24]


def number(value: bool | int | float) -> str:
    """Another constant near this one."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    return repr(value + 1.0) if value in (0.0, 1.0) else repr(float(f"{value * 8 / 9:.6g}"))


def variants(node: ast.AST) -> Iterator[str]:
    """Every small change of this one node, as source text; the children have their own."""
    show = ast.unparse
    if isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            ops = [*node.ops[:k], COMPARE[type(op)](), *node.ops[k + 1 :]]
            yield f"({show(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        texts = [side for side in (node.left, node.right) if isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
                 or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))]  # fmt: skip
        if not texts:  # pieces of text and lists are only joined
            yield f"({show(ast.BinOp(node.left, BINARY[type(node.op)](), node.right))})"
            yield f"({show(node.left)})"
            if isinstance(node.op, ast.Mult | ast.Add):
                yield f"({show(node.right)})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({show(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield f"({show(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield number(node.value)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in BACKWARDS:
            yield f"{show(node)}[::-1]"
        if name in DROPPED and len(node.args) == 1:
            yield f"({show(node.args[0])})"
    elif isinstance(node, ast.Name) and node.id in SWAPPED:
        yield SWAPPED[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in SWAPPED:
        yield f"{show(node.value)}.{SWAPPED[node.attr]}"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"


def nodes(node: ast.AST, returns: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Nodes that carry meaning (no types, decorators, errors, `__all__`), with the return type around them."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.FunctionDef):
        returns = ast.unparse(node.returns) if node.returns else ""
    if isinstance(node, ast.keyword) and node.arg in ("axis", "dtype", "indent", "strict"):
        return
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(".shape"):
        return
    yield node, returns
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "bases"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from nodes(child, returns)


def mutants(area: str, module: str, text: str) -> list[Mutant]:
    """Every mutant of one module, in the order of its lines."""
    lines, found = text.encode().splitlines(keepends=True), {}  # columns of the syntax tree count bytes
    tree = ast.parse(text)
    meaning = ast.dump(tree)
    for node, returns in nodes(tree):
        changes = [(node, new) for new in variants(node)]
        if isinstance(node, ast.Return) and node.value and returns in RETURNED:
            changes.append((node.value, RETURNED[returns].format(ast.unparse(node.value))))
        for at, new in changes:
            first, last = at.lineno - 1, at.end_lineno
            old = b"".join(lines[first:last])
            tail = lines[last - 1][at.end_col_offset :]
            changed = lines[first][: at.col_offset] + new.encode() + tail
            whole = b"".join([*lines[:first], changed, *lines[last:]]).decode()
            try:
                same = ast.dump(ast.parse(whole)) == meaning
            except SyntaxError:
                continue
            if not same:
                before, after = (" ".join(part.decode().split()) for part in (old, changed))
                found.setdefault(whole, Mutant(area, module, at.lineno, before, after, whole))
    return sorted(found.values(), key=lambda mutant: mutant.line)
