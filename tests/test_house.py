"""Every line of the library says one thing: what a reader of the sources can rely on."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("iclimit", "asymptotics", "simulate", "validation")


def sources():
    """Trees of the files of the library, by path."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{room}/*.py" for room in ROOMS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in listed.stdout.split():
        yield path, ast.parse((ROOT / path).read_text("utf-8"))


def is_exchange(target, value):
    """Whether values change places, which takes one line."""
    names = sorted(ast.unparse(part) for part in target.elts)
    return len(names) == 2 and names == sorted(ast.unparse(part) for part in value.elts)


def packs(node):
    """Whether an assignment gives several names a value of their own each."""
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if len(node.targets) > 1:
        return True
    if not isinstance(target, ast.Tuple | ast.List) or len(target.elts) == 1:
        return False
    value = node.value
    if isinstance(value, ast.Tuple | ast.List):
        return not is_exchange(target, value)
    mapped = isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("map", "zip")
    return mapped or isinstance(value, ast.GeneratorExp | ast.ListComp)


def reads_frame(node):
    """Whether arguments are taken from the frame of a function, so that their order counts."""
    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
    return name == "locals" or (name == "vars" and not node.args)


def is_list(node):
    return isinstance(node, ast.List | ast.Tuple | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_condition(node):
    called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("bool", "any", "all")
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return called or negated or isinstance(node, ast.Compare | ast.BoolOp)


def multiplies_truth(node):
    """Whether a list or a text is multiplied by a condition, in place of an if."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    pairs = ((node.left, node.right), (node.right, node.left))
    return any(is_list(first) and is_condition(second) for first, second in pairs)


RULES = {
    "one assignment a line": packs,
    "arguments by name, not from locals()": reads_frame,
    "an if in place of text times a condition": multiplies_truth,
}


@pytest.mark.parametrize("rule", RULES)
def test_every_line_says_one_thing(rule):
    broken = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if RULES[rule](node)
    ]
    assert not broken, f"{rule}: {', '.join(broken)}"


@pytest.mark.parametrize(
    ("rule", "line", "breaks"),
    [
        ("one assignment a line", "a, b = 1, 2", True),
        ("one assignment a line", "a = b = 1", True),
        ("one assignment a line", "a, b = (f(x) for x in y)", True),
        ("one assignment a line", "a, b = map(f, y)", True),
        ("one assignment a line", "a, b = b, a", False),
        ("one assignment a line", "a, b = f(x)", False),
        ("arguments by name, not from locals()", "f(**locals())", True),
        ("arguments by name, not from locals()", "vars(x)", False),
        ("an if in place of text times a condition", "a + ['x'] * any(y)", True),
        ("an if in place of text times a condition", "'x' * (a > 1)", True),
        ("an if in place of text times a condition", "'-' * width", False),
    ],
)
def test_the_rules_see_what_they_are_for(rule, line, breaks):
    assert any(RULES[rule](node) for node in ast.walk(ast.parse(line))) == breaks
