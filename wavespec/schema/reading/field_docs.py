"""Models go in; the docstrings of their fields come out, read from the source when a JSON Schema asks for them.

Pydantic would read them when it makes a model, a tenth of a second for all models in every process, and nothing else
has a use for them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from wavespec.schema.language.base import SpecModel

_Schema = dict[str, Any]


def with_field_docs(schema: _Schema, root: type[SpecModel]) -> _Schema:
    """The JSON Schema that pydantic makes of ``root``, each field with its docstring as description."""
    models = {model.__name__: model for model in _every_model(SpecModel)}
    definitions = {
        name: _described(one, models[name]) if name in models else one for name, one in schema.get("$defs", {}).items()
    }
    own = _described(schema, root)
    return {**own, "$defs": definitions} if definitions else own


def _every_model(model: type[SpecModel]) -> Iterator[type[SpecModel]]:
    yield model
    for one in model.__subclasses__():
        yield from _every_model(one)


def _described(schema: _Schema, model: type[SpecModel]) -> _Schema:
    docs = _field_docs(model)
    fields: dict[str, _Schema] = schema.get("properties", {})
    # Keys are in order, as pydantic leaves them.
    described = {
        name: dict(sorted({**field, "description": docs[name]}.items())) if name in docs else field
        for name, field in fields.items()
    }
    return {**schema, "properties": described} if fields else schema


def _field_docs(model: type[SpecModel]) -> dict[str, str]:
    """Of each field of ``model`` the docstring that stands where it was declared last."""
    docs: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, SpecModel) and one is not SpecModel:
            declared = _declared(one)
            docs = {name: doc for name, doc in docs.items() if name not in declared}
            docs |= {name: doc for name, doc in declared.items() if doc}
    return docs


def _declared(model: type[SpecModel]) -> dict[str, str]:
    """The fields that a class itself declares, with their docstrings; of one that a table made, without."""
    names = dict.fromkeys(inspect.get_annotations(model), "")
    tree = _classes_of(model.__module__).get(model.__qualname__)
    if tree is None:
        return names
    for field, doc in zip(tree.body, tree.body[1:], strict=False):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                names[name] = inspect.cleandoc(text)
            case _:
                pass
    return names


@cache
def _classes_of(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module by name; none where there is no source. `inspect` would read all of it for each."""
    try:
        body = ast.parse(inspect.getsource(sys.modules[module])).body
    except (OSError, TypeError):
        return {}
    return {one.name: one for one in body if isinstance(one, ast.ClassDef)}
