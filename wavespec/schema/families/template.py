"""The template of a family goes in; its text for given parameters, and where each piece of it was written, come out.

What a template may say is a small part of jinja2: values, arithmetic on integers, `if`, `for`, `set`, comments and some
filters. That part is checked on the syntax tree, before anything runs; what runs then does so in jinja2's sandbox for
immutable data, without loaders or extensions, and every step that it takes is counted.

Note [marks]: before a template is compiled, marks are put into its tree, characters that no spec may have with a number
between them. In front of a piece of text a mark says which piece it is; one in front of a statement says its line, and
makes jinja2 hand out what it has, so that a loop without any output is stopped too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.environment import Template as CompiledTemplate
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.parser import Parser

from wavespec.diagnostics import Span, WavespecError, Where, name_hints, quote
from wavespec.schema.families.sandbox import ENVIRONMENT, FILTERS, TESTS, NoValue
from wavespec.schema.families.template_places import Piece, TemplatePlace
from wavespec.schema.reading.yaml_source import LARGEST_FILE_BYTES
from wavespec.schema.resolve import UndefinedName

MOST_STEPS = 100_000
MOST_SECONDS = 10.0
"""The steps are what counts, being the same everywhere; the clock is for what nobody thought of."""
_FILE = "<template of a family>"
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}(L?[0-9]+){_CLOSE}")
_LINE = re.compile(f"{_OPEN}L([0-9]+){_CLOSE}")
_STATEMENTS = (nodes.Output, nodes.If, nodes.For, nodes.Assign)
_EXPRESSIONS = (
    nodes.Add,
    nodes.And,
    nodes.Call,
    nodes.Compare,
    nodes.CondExpr,
    nodes.Const,
    nodes.Dict,
    nodes.Div,
    nodes.Filter,
    nodes.FloorDiv,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Keyword,
    nodes.List,
    nodes.Mod,
    nodes.Mul,
    nodes.Name,
    nodes.Neg,
    nodes.Not,
    nodes.Operand,
    nodes.Or,
    nodes.Pair,
    nodes.Pos,
    nodes.Pow,
    nodes.Slice,
    nodes.Sub,
    nodes.TemplateData,
    nodes.Test,
    nodes.Tuple,
)
_LOOP = ("depth", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0")
_WORDS: dict[type[nodes.Node], str] = {
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "import",
    nodes.Block: "block",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
    nodes.AssignBlock: "set",
    nodes.With: "with",
}

Values = Mapping[str, str | int]
Parameters = Mapping[str, Sequence[str | int]]


class MalformedTemplate(WavespecError, code="malformed-template"):
    """The template language does not know what was written."""

    def __init__(self, where: Where, problem: str) -> None:
        super().__init__(where, f"This is no template: {problem}.")


class UnsafeTemplate(WavespecError, code="unsafe-template"):
    """A part of jinja2 that templates of specs do not have."""


class FailingTemplate(WavespecError, code="failing-template"):
    """An expression of a template has no value for a member."""


class UnquotedText(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, word: str) -> None:
        super().__init__(
            where,
            f"{quote(word)} is not a parameter of the family.",
            hints=[f"Write {quote(word)}, with the quotes, for the value of a parameter."],
            about=[word],
        )


class EndlessTemplate(WavespecError, code="endless-template"):
    """A template writes, or goes on, without an end in sight."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a template says for some parameters, and the pieces of the template that it is made of, in order."""

    text: str
    pieces: tuple[Piece, ...]


class Template:
    """A template that is allowed to run."""

    def __init__(self, text: str, parameters: Parameters, place: TemplatePlace) -> None:
        """Check all of it; `parameters` with their values.

        Raises:
            WavespecError: with every mistake that shows without running it.
        """
        self._place = place
        tree = _parsed(text, place)
        _check(tree, parameters, place)
        self._spans = _piece_offsets(text)
        _mark(tree, iter(range(len(self._spans))))
        self._compiled = _compiled(tree, place)

    def render(self, values: Values) -> Rendered:
        """Its text for the parameters `values`.

        Raises:
            WavespecError: at the line that has no value, or goes on for ever.
        """
        written: list[str] = []
        pieces: list[Piece] = []
        length, last, is_statement = 0, 0, True

        def here(line: int) -> Span:
            """The `{{ }}` that is at work, or else the line."""
            return self._place.line(line) if is_statement else self._place.span(*self._spans[last][:2])

        for chunk in _run(self._compiled, values, here):
            for index, text in enumerate(_MARK.split(chunk)):
                if index % 2:
                    is_statement = text.startswith("L")
                    last = last if is_statement else int(text)
                elif text:
                    start, end, is_text = self._spans[last]
                    pieces.append(Piece(length, length + len(text), start, end, is_text))
                    written.append(text)
                    length += len(text)
            if length > LARGEST_FILE_BYTES:
                message = f"The template writes more than {LARGEST_FILE_BYTES} characters."
                raise EndlessTemplate(self._place.span(*self._spans[last][:2]), message)
        return Rendered("".join(written), tuple(pieces))


class Condition:
    """An expression of the template language that is true or false for some parameters."""

    def __init__(self, text: str, parameters: Parameters, place: TemplatePlace) -> None:
        """Check all of it; `parameters` with their values.

        Raises:
            WavespecError: with every mistake that shows without running it.
        """
        self._place = place
        try:
            parser = Parser(ENVIRONMENT, text, state="variable")
            expression = parser.parse_expression()
            if not parser.stream.eos:
                raise TemplateSyntaxError("more behind the end of the condition", 1)
        except (TemplateError, RecursionError, ValueError) as error:
            raise _malformed(error, place) from None
        yes = nodes.Output([nodes.TemplateData("yes", lineno=1)], lineno=1)
        tree = nodes.Template([nodes.If(expression, [yes], [], [], lineno=1)], lineno=1)
        tree.set_environment(ENVIRONMENT)
        _check(tree, parameters, place)
        self._compiled = _compiled(tree, place)

    def holds(self, values: Values) -> bool:
        """Whether it is true.

        Raises:
            WavespecError: it has no value.
        """
        return "".join(_run(self._compiled, values, self._place.line)) == "yes"


def _parsed(text: str, place: TemplatePlace) -> nodes.Template:
    try:
        return ENVIRONMENT.parse(text)
    except (TemplateError, RecursionError, ValueError) as error:
        raise _malformed(error, place) from None


def _malformed(error: Exception, place: TemplatePlace) -> MalformedTemplate:
    if isinstance(error, TemplateSyntaxError):
        message = (error.message or "unreadable").rstrip(".")
        return MalformedTemplate(place.line(error.lineno), f"{message[:1].lower()}{message[1:]}")
    problem = "it nests too deeply" if isinstance(error, RecursionError) else "a number is too large"
    return MalformedTemplate(place.line(1), problem)


def _check(tree: nodes.Template, parameters: Parameters, place: TemplatePlace) -> None:
    """Raise every mistake that the tree shows."""
    try:
        errors = list(_forbidden(tree, parameters, place))
    except RecursionError as error:  # a long sum nests as deeply as it is long
        raise _malformed(error, place) from None
    if not errors:
        # Whether a name is known in its scope is for jinja2 to say, which reads includes and the like for that.
        try:
            undefined = meta.find_undeclared_variables(tree) - {*parameters, "range"}
        except (RecursionError, TemplateError) as error:
            raise _malformed(error, place) from None
        names = list(tree.find_all(nodes.Name))
        stored = {node.name for node in names if node.ctx == "store"}
        for node in names:
            if node.ctx == "load" and node.name in undefined:
                errors.append(_undefined(node.name, place.word(node.lineno, node.name), parameters, stored))
    if errors:
        raise WavespecError.of(diagnostic for error in errors for diagnostic in error.diagnostics)


def _undefined(name: str, where: Where, parameters: Parameters, stored: set[str]) -> WavespecError:
    if name in stored:
        return FailingTemplate(where, f"{quote(name)} has a value only where its 'set' or 'for' is reached.")
    if any(name in values for values in parameters.values()):
        return UnquotedText(where, name)
    return UndefinedName(where, name, "a parameter of the family", list(parameters))


def _forbidden(tree: nodes.Template, parameters: Parameters, place: TemplatePlace) -> Iterator[WavespecError]:
    for node in tree.find_all(nodes.Node):
        problem: tuple[str, str, str] | None = None
        match node:
            case nodes.For(recursive=recursive, test=test) if recursive or test is not None:
                problem = ("for", "A 'for' has neither 'if' nor 'recursive'.", "Write an 'if' inside the loop.")
            case nodes.Assign(target=target) if not isinstance(target, nodes.Name):
                problem = ("set", "'set' gives one value to one name.", "")
            case nodes.Call(node=called) if not _is_range(called):
                problem = ("(", "A template calls nothing but 'range'.", "")
            case nodes.Name(ctx="store", name=name) if name in (*parameters, "range", "loop"):
                problem = (name, f"{quote(name)} has its meaning already.", "Choose another name.")
            case nodes.Getattr(node=owner, attr=attr) if not (isinstance(owner, nodes.Name) and owner.name == "loop"):
                problem = (attr, f"{quote(attr)}: a template reads no attributes but those of 'loop'.", "")
            case nodes.Getattr(attr=attr) if attr not in _LOOP:
                problem = (attr, f"'loop' has no {quote(attr)} here.", name_hints(attr, _LOOP, "It has")[0])
            case nodes.List(items=items) | nodes.Tuple(items=items, ctx="load") if not _are_plain(items, parameters):
                problem = ("[", "A list has constants and parameters in it.", "")
            case nodes.Dict(items=pairs) if not _are_plain(
                [part for pair in pairs for part in (pair.key, pair.value)], parameters
            ):
                problem = ("{", "A mapping has constants and parameters in it.", "")
            case nodes.Filter(name=name) if name not in FILTERS:
                problem = (name, f"There is no filter {quote(name)}.", name_hints(name, FILTERS, "There are")[0])
            case nodes.Test(name=name) if name not in TESTS:
                problem = (name, f"There is no test {quote(name)}.", name_hints(name, TESTS, "There are")[0])
            case nodes.Concat():
                problem = ("~", "'~' is not in this language.", "Write the parts one behind the other.")
            case nodes.Template():
                pass
            case _ if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
                word = _WORDS.get(type(node), type(node).__name__.lower())
                problem = (word, f"{quote(word)}: templates have 'if', 'for' and 'set' only.", "")
            case _:
                pass
        if problem is not None:
            word, message, hint = problem
            yield UnsafeTemplate(place.word(node.lineno, word), message, hints=[hint] if hint else [])


def _is_range(called: nodes.Expr) -> bool:
    return isinstance(called, nodes.Name) and called.name == "range"


def _are_plain(items: Sequence[nodes.Expr], parameters: Parameters) -> bool:
    """Of a size that is written down: what is made of others can have each of them twice, and those too."""
    kinds = nodes.Const | nodes.Neg | nodes.List | nodes.Tuple | nodes.Dict
    return all(isinstance(one, kinds) or (isinstance(one, nodes.Name) and one.name in parameters) for one in items)


def _piece_offsets(text: str) -> list[tuple[int, int, bool]]:
    """Start and end in the template of every piece of text, and of every `{{ }}`, in order; whether it is text."""
    found: list[tuple[int, int, bool]] = []
    at, opened = 0, 0
    for _, token, value in ENVIRONMENT.lexer.tokeniter(text, None):
        # What '-' and the removal of blank lines took away is in no token.
        at = text.index(value, at)
        if token == "data":
            found.append((at, at + len(value), True))
        elif token == "variable_begin":
            opened = at
        elif token == "variable_end":
            found.append((opened, at + len(value.rstrip()), False))
        at += len(value)
    return found


def _mark(node: nodes.Node, numbers: Iterator[int]) -> None:
    """See Note [marks]; pieces come in the order of the template."""
    if isinstance(node, nodes.Output):
        marked: list[nodes.Expr] = []
        for child in node.nodes:
            marked += [_mark_node(str(next(numbers)), node.lineno), child]
        node.nodes = marked
    for name in ("body", "elif_", "else_"):
        children: list[nodes.Node] = getattr(node, name, None) or []
        stepped: list[nodes.Node] = []
        for child in children:
            _mark(child, numbers)
            step = nodes.Output([_mark_node(f"L{child.lineno}", child.lineno)], lineno=child.lineno)
            stepped += [child] if name == "elif_" else [step, child]
        if name == "body" and not children and isinstance(node, nodes.For):
            stepped = [nodes.Output([_mark_node(f"L{node.lineno}", node.lineno)], lineno=node.lineno)]
        if children or stepped:
            setattr(node, name, stepped)


def _mark_node(number: str, line: int) -> nodes.TemplateData:
    return nodes.TemplateData(f"{_OPEN}{number}{_CLOSE}", lineno=line)


def _compiled(tree: nodes.Template, place: TemplatePlace) -> CompiledTemplate:
    tree.set_environment(ENVIRONMENT)
    try:
        code = ENVIRONMENT.compile(tree, filename=_FILE)
    except TemplateSyntaxError as error:  # a filter or test that there is not
        raise _malformed(error, place) from None
    except (RecursionError, MemoryError, SyntaxError):
        raise MalformedTemplate(place.line(1), "it nests too deeply") from None
    return CompiledTemplate.from_code(ENVIRONMENT, code, dict(ENVIRONMENT.globals))


def _run(compiled: CompiledTemplate, values: Values, place: Callable[[int], Span]) -> Iterator[str]:
    """What the template writes, step by step, with marks; `place` says where it is at work, from the line."""
    end = time.monotonic() + MOST_SECONDS
    line = 1
    try:
        for steps, chunk in enumerate(compiled.generate(**values), 1):
            yield chunk
            if found := _LINE.findall(chunk):
                line = int(found[-1])
            if steps > MOST_STEPS or time.monotonic() > end:
                raise EndlessTemplate(place(line), f"The template takes more than {MOST_STEPS} steps.")
    except WavespecError:
        raise
    except NoValue as error:
        raise FailingTemplate(_line_of(error, place), f"This has no value: {error}.") from None
    except UndefinedError as error:
        raise FailingTemplate(_line_of(error, place), f"This has no value: {str(error.message).rstrip('.')}.") from None
    except SecurityError as error:
        raise UnsafeTemplate(_line_of(error, place), f"The sandbox forbids this: {error.message}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError, TemplateError) as error:
        raise FailingTemplate(_line_of(error, place), f"This has no value: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise MalformedTemplate(place(1), "it nests too deeply") from None


def _line_of(error: Exception, place: Callable[[int], Span]) -> Span:
    """The line of the template that was running; jinja2 puts those lines into tracebacks."""
    trace: TracebackType | None = error.__traceback__
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return place(line)
