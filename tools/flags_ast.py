"""The launch flags that SGLang's source declares, in any of its three styles. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

TYPES = {
    "int": "int",
    "float": "float",
    "human_readable_int": "size",  # 4096 or 4k
    "json.loads": "json",
    "json_list_type": "json",
    "parse_cuda_graph_config_arg": "json",
}
DEPRECATED_SWITCHES = ("DeprecatedAction", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction")


def flags_of_sources(sources: dict[str, str]) -> list[dict]:
    """sources: module name → text. Each flag: names (canonical first, no dashes), kind, and what else is literal."""
    trees = [ast.parse(text) for text in sources.values()]
    literals = Literals(trees)
    found: dict[str, dict] = {}
    for tree in trees:
        for flag in (*declared_fields(tree, literals), *added_arguments(tree, literals)):
            found.setdefault(flag["names"][0], flag)
    return list(found.values())


class Literals:
    """Module-level lists of text, by name, so that `choices=NAME` can be read."""

    def __init__(self, trees: list[ast.Module]) -> None:
        self.values: dict[str, list[str]] = {}
        for tree in trees:
            for node in tree.body:
                if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                    value = self.read(node.value)
                    if value is not None:
                        self.values.setdefault(node.targets[0].id, value)

    def read(self, node: ast.expr | None) -> list[str] | None:
        """The list, or None where it is not literal (a function, another package's list)."""
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                parts = [self.element(e) for e in elements]
                return None if None in parts else [text for part in parts for text in part or []]
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                a, b = self.read(left), self.read(right)
                return None if a is None or b is None else a + b
        return None

    def element(self, node: ast.expr) -> list[str] | None:
        match node:
            case ast.Constant(value=str() | int() | float() as value):
                return [str(value)]
            case ast.Starred(value=inner):
                return self.read(inner)
        return None


# --- annotated fields (0.5.14 on) -------------------------------------------------------------------------------------


def declared_fields(tree: ast.Module, literals: Literals) -> Iterator[dict]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and (node.name == "ServerArgs" or is_namespace(node)):
            for field in node.body:
                flag = field_flag(field, literals) if isinstance(field, ast.AnnAssign) else None
                if flag:
                    yield flag


def is_namespace(node: ast.ClassDef) -> bool:
    targets = [t for n in node.body if isinstance(n, ast.Assign) for t in n.targets]
    return any(isinstance(t, ast.Name) and t.id == "_NS_PATH" for t in targets)


def field_flag(field: ast.AnnAssign, literals: Literals) -> dict | None:
    """The flag of `name: A[type, "help" or Arg(...)]`, None for a field without a flag."""
    annotation = field.annotation
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")):
        return None
    if not (isinstance(annotation.slice, ast.Tuple) and isinstance(field.target, ast.Name)):
        return None
    kind_of, *extras = annotation.slice.elts
    if not any(is_meta(extra) for extra in extras):
        return None
    meta = {k.arg: k.value for e in extras if isinstance(e, ast.Call) and called(e) == "Arg" for k in e.keywords}
    if is_true(meta.get("no_cli")):
        return None
    first = text_of(meta.get("cli_name")) or "--" + field.target.id.replace("_", "-")
    names = [first, *(literals.read(meta.get("aliases")) or [])]
    return flag(names, **field_shape(inner_type(kind_of), meta, literals))


def is_meta(node: ast.expr) -> bool:
    """A help text (a literal, joined or formatted) or Arg(...)."""
    if isinstance(node, ast.Call):
        return called(node) == "Arg"
    return not isinstance(node, ast.Name)


def field_shape(kind_of: ast.expr, meta: dict, literals: Literals) -> dict:
    """As arg_utils.add_cli_args_from_dataclass decides it, in its order."""
    choices = literals.read(meta.get("choices"))
    if "action" in meta:
        extra = meta.get("action_kwargs")
        pairs = zip(extra.keys, extra.values, strict=True) if isinstance(extra, ast.Dict) else ()
        return action_shape(meta["action"], {text_of(k): v for k, v in pairs} | meta, literals)
    outer = ast.unparse(kind_of.value) if isinstance(kind_of, ast.Subscript) else ast.unparse(kind_of)
    if outer.endswith("Literal") and isinstance(kind_of, ast.Subscript):
        return {"kind": "value", "type": "str", "choices": choices or literals.read(as_list(kind_of.slice))}
    if outer in ("List", "list") and "type_parser" not in meta and isinstance(kind_of, ast.Subscript):
        return {
            "kind": "list",
            "nargs": text_of(meta.get("nargs")) or "+",
            "type": type_name(kind_of.slice),
            "choices": choices,
        }
    if outer == "bool":
        return {"kind": "switch"}
    return value_shape(text_of(meta.get("nargs")), type_name(meta.get("type_parser", kind_of)), choices)


def inner_type(node: ast.expr) -> ast.expr:
    """X of Optional[X], Union[X, None] and X | None."""
    match node:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner_type(inner)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
            rest = [p for p in parts if not is_none(p)]
            return inner_type(rest[0]) if len(rest) == 1 else node
        case ast.BinOp(left=left, op=ast.BitOr(), right=right) if is_none(right):
            return inner_type(left)
    return node


# --- parser.add_argument (all releases, few from 0.5.14 on) -----------------------------------------------------------


def added_arguments(tree: ast.Module, literals: Literals) -> Iterator[dict]:
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        names = [text_of(a) or "" for a in call.args]
        if call.func.attr != "add_argument" or not names or not all(n.startswith("-") for n in names):
            continue
        keywords = {k.arg: k.value for k in call.keywords if k.arg}
        yield flag(names, **argument_shape(keywords, literals))


def argument_shape(keywords: dict, literals: Literals) -> dict:
    if "action" in keywords:
        return action_shape(keywords["action"], keywords, literals)
    nargs = text_of(keywords.get("nargs"))
    return value_shape(nargs, type_name(keywords.get("type")), literals.read(keywords.get("choices")))


def action_shape(action: ast.expr, keywords: dict, literals: Literals) -> dict:
    name = text_of(action) or ast.unparse(action).rpartition(".")[2]
    if name in ("store_true", "store_false"):
        return {"kind": "switch"}
    if name == "BooleanOptionalAction":
        return {"kind": "boolean"}
    nargs, choices = text_of(keywords.get("nargs")), literals.read(keywords.get("choices"))
    shape = value_shape(nargs, type_name(keywords.get("type")), choices)
    if name == "append":
        return {**shape, "kind": "append"}
    if not name.startswith("Deprecated"):
        return shape
    if name in DEPRECATED_SWITCHES and "nargs" not in keywords:
        shape = {"kind": "switch"}
    error = text_of(keywords.get("error_message"))
    return {**shape, "deprecated": True, "use": text_of(keywords.get("new_flag")) or error, "refused": bool(error)}


# --- shapes -----------------------------------------------------------------------------------------------------------


def value_shape(nargs: str | None, type_: str, choices: list[str] | None) -> dict:
    if nargs in ("+", "*"):
        return {"kind": "list", "nargs": nargs, "type": type_, "choices": choices}
    return {"kind": "value", "nargs": nargs, "type": type_, "choices": choices}


def flag(names: list[str], **shape: object) -> dict:
    """Dashes off, the first long name first, empty facts left out."""
    long = [n.removeprefix("--") for n in names if n.startswith("--")]
    return {"names": long, **{k: v for k, v in shape.items() if v}}


def type_name(node: ast.expr | None) -> str:
    return TYPES.get(ast.unparse(node), "str") if node is not None else "str"


def as_list(node: ast.expr) -> ast.expr:
    return node if isinstance(node, ast.Tuple) else ast.List(elts=[node], ctx=ast.Load())


def called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
