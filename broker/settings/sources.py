"""Where settings come from: options over the environment over a file, and what is wrong with them.

In: a model of the settings, a TOML file, the environment, options. Out: one set of values with the
origin of each, or all problems at once, each with its place and, where it can be told, the cure.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource

from xscl.syntax.nearest import did_you_mean

Path_ = tuple[str, ...]
"""The names that lead to a setting: ("server", "port")."""

Model = TypeVar("Model", bound=BaseSettings)

PREFIX = "BROKER_"
_OF_COMMANDS = ("CONFIG", "URL", "TOKEN", "TOKEN_FILE", "JAVA_CACHE")
"""What commands read from the environment besides the settings."""

_UNREAD = "-" * 64
"""Stands for a secret whose file cannot be read: as good as any."""

_MESSAGES = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be a text in quotes",
    "path_type": "must be a text in quotes",
    "secret_type": "must be a text in quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "too_short": "must not be empty",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong: where it was set (a file and line, a variable), the setting, and why."""

    where: str
    name: str
    message: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.name, self.message)))


def _in_file_order(problem: Problem) -> tuple[str, int]:
    file, _, line = problem.where.rpartition(":")
    return (file, int(line)) if line.isdigit() else (problem.where, 0)


class SettingsError(Exception):
    """The settings cannot be used; `problems` says all that is wrong."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_in_file_order))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one origin, nested as in the file; `where` tells the place of one of them."""

    values: dict[str, Any]
    name: str = "option"
    text: str = ""

    def where(self, path: Path_) -> str | None:
        """The place at which this layer sets something; None if it does not."""
        value: Any = self.values
        for part in path:
            if not isinstance(value, dict):
                break
            if part not in value:
                return None
            value = value[part]
        if self.name == "environment":
            ways = (_variable(path[:length]) for length in range(len(path), 0, -1))
            return next((name for name in ways if name in os.environ), self.name)
        if self.text:
            line = line_of(self.text, path)
            return f"{self.name}:{line}" if line else self.name
        return self.name


@dataclass(frozen=True, slots=True)
class Layers:
    """What was set where; `layers` from the one that counts most to the one that counts least."""

    layers: tuple[Layer, ...]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def origin(self, path: Path_) -> str:
        """Where a setting comes from: a place, or "default"."""
        found = (layer.where(path) for layer in self.layers)
        return next((where for where in found if where), "default")

    def validated(self, model: type[Model]) -> Model:
        """The settings. Raises SettingsError, which holds the problems of reading them as well."""
        settings = None
        try:
            settings = model(**self._with_secrets(model, self._merged()))
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self.problems.append(self._problem(model, each))
        if settings is None or self.problems:
            raise SettingsError(self.problems)
        self.warnings.extend(self._readable_secrets(settings))
        return settings

    def _merged(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for layer in reversed(self.layers):
            _merge(merged, layer.values)
        return merged

    def _with_secrets(self, model: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
        """Put what is in the file of a NAME_file under NAME, where that is a secret."""
        for path, described in fields(model):
            section = _inside(values, path[:-1])
            file = section.get(f"{path[-1]}_file")
            if SecretStr not in _types(described.annotation) or not isinstance(file, str | Path):
                continue
            named = (*path[:-1], f"{path[-1]}_file")
            problem = ""
            if section.get(path[-1]) is not None:
                problem = f"give {path[-1]} or {path[-1]}_file, not both"
            else:
                section[path[-1]], problem = _read_secret(Path(file))
            if problem:
                self.problems.append(Problem(self.origin(named), ".".join(named), problem))
        return values

    def _problem(self, model: type[BaseModel], error: ErrorDetails) -> Problem:
        path = tuple(str(part) for part in error["loc"])
        context = error.get("ctx", {})
        where = self.origin(path)
        if "field" in context:
            path = (*path, context["field"])
            where = self.origin(path) if self.origin(path) != "default" else where
        name = ".".join(path)
        kind = error["type"]
        if kind == "extra_forbidden":
            return Problem(where, name, f"there is no such setting{_meant(model, path)}")
        message = _MESSAGES.get(kind, "")
        if not message:
            message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
            shown = error["input"]
            if kind not in ("value_error", "section") and not _is_secret(model, path):
                message += f", and not {shown!r}"
        if where == "default":
            where = ""
        return Problem(where, name, message)

    def _readable_secrets(self, settings: BaseSettings) -> Iterator[str]:
        """Files with secrets that every user of the machine may read."""
        files: dict[Path, str] = {}
        for path, value, _ in leaves(settings):
            if isinstance(value, SecretStr):
                where = self.origin(path)
                # A layer with text is the file.
                layer = next((each for each in self.layers if each.where(path) == where), None)
                if layer is not None and layer.text:
                    files[Path(layer.name)] = f"it holds {'.'.join(path)}"
            elif isinstance(value, Path) and path[-1].endswith("_file"):
                files[value] = f"it is {'.'.join(path)}"
        for file, why in files.items():
            if file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
                everybody = f"{file} can be read by everybody on this machine"
                yield f"{everybody}, and {why}: chmod 600 {file}"


def read_layers(
    model: type[BaseSettings], config: Path | None, overrides: Mapping[str, object]
) -> Layers:
    """What options, environment and file say; problems of reading are kept, not raised."""
    problems: list[Problem] = []
    warnings: list[str] = []
    options: dict[str, Any] = {}
    for name, value in overrides.items():
        if value is not None:
            *outer, last = name.split(".")
            inner = options
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[last] = value
    environment = _read_environment(model, problems, warnings)
    file = _read_file(model, config, problems) if config else None
    layers = (Layer(options), Layer(environment, "environment"), *([file] if file else []))
    return Layers(layers, problems, warnings)


# -- the environment -------------------------------------------------------------------------


class _Environment(EnvSettingsSource):
    """Lists and tables are written as JSON; what is not is left for validation to refuse."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            return value


def _read_environment(
    model: type[BaseSettings], problems: list[Problem], warnings: list[str]
) -> dict[str, Any]:
    known = {_variable(path): path for path, _ in fields(model)}
    sections = {_variable((name,)) for name in model.model_fields}
    plain = {PREFIX + name for name in _OF_COMMANDS} | {name for name in known if "__" not in name}
    single = {name.replace("__", "_"): name for name in known if "__" in name}
    strange = set()
    for name in os.environ:
        if not name.upper().startswith(PREFIX) or name in {*known, *sections, *plain}:
            continue
        strange.add(name)
        table = next((known[each] for each in known if name.startswith(each + "__")), None)
        near = did_you_mean(
            name.removeprefix(PREFIX),
            [each.removeprefix(PREFIX) for each in (known if "__" in name else plain)],
        )
        if table:
            text = f"write {_variable(table)}='{{\"NAME\": …}}', with the whole table as JSON"
            problems.append(Problem(name, ".".join(table), text))
        elif name in single:
            warnings.append(f"{name} is no setting; did you mean {single[name]}?")
        elif "__" in name or near:
            # Others that begin so need not be ours: orchestrators name variables after services.
            meant = f"; {near.replace('mean ', 'mean ' + PREFIX)}" if near else ""
            problems.append(Problem(name, "", f"there is no such setting{meant}"))
    source = _Environment(model, env_ignore_empty=True)
    source.env_vars = {
        name: value for name, value in source.env_vars.items() if name.upper() not in strange
    }
    return source()


def _variable(path: Path_) -> str:
    return PREFIX + "__".join(path).upper()


# -- the file --------------------------------------------------------------------------------


def _read_file(model: type[BaseSettings], config: Path, problems: list[Problem]) -> Layer | None:
    try:
        text = config.read_bytes().decode("utf-8-sig")
        values = tomllib.loads(text)
    except OSError as error:
        problems.append(Problem(str(config), "", error.strerror or str(error)))
    except UnicodeDecodeError as error:
        problems.append(Problem(str(config), "", f"byte {error.start + 1} is not UTF-8"))
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rpartition(" (at ")
        line = re.search(r"line (\d+)", place)
        where = f"{config}:{line[1]}" if line else str(config)
        problems.append(Problem(where, "", f"this is no TOML: {message or error}"))
    else:
        _place_paths(model, values, config.parent)
        return Layer(values, str(config), text)
    return None


def _place_paths(model: type[BaseModel], values: dict[str, Any], base: Path) -> None:
    """Paths in a file are meant from the folder in which it is."""
    for path, described in fields(model):
        inner = _inside(values, path[:-1])
        value = inner.get(path[-1]) if Path in _types(described.annotation) else None
        if isinstance(value, str):
            inner[path[-1]] = str(base / value)
        elif isinstance(value, list):
            inner[path[-1]] = [str(base / v) if isinstance(v, str) else v for v in value]


def _read_secret(file: Path) -> tuple[str, str]:
    """What a file holds, and what is wrong with it; something in any case, so that one is
    enough."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        return _UNREAD, f"{file}: {error.strerror}"
    except UnicodeDecodeError:
        return _UNREAD, f"{file}: it is not text"
    return text or _UNREAD, "" if text else f"{file}: it is empty"


def line_of(text: str, path: Path_) -> int | None:
    """The line of a TOML text that sets a setting, or that opens the table in which it is set."""
    table: Path_ = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[\[?([^\[\]]+)\]", line)
        setting = re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[\w"'-]+)*)\s*=""", line)
        if header:
            table = _key(header[1])
        if not header and not setting:
            continue
        here = table if header else (*table, *_key(setting[1] if setting else ""))
        if here and path[: len(here)] == here and (best is None or len(here) > best[0]):
            best = len(here), number
    return best[1] if best else None


def _key(text: str) -> Path_:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


# -- the model -------------------------------------------------------------------------------


def fields(model: type[BaseModel], above: Path_ = ()) -> Iterator[tuple[Path_, FieldInfo]]:
    """All settings, those of nested sections too, in the order in which they are declared."""
    for name, described in model.model_fields.items():
        kind = described.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, (*above, name))
        else:
            yield (*above, name), described


def leaves(settings: BaseModel) -> Iterator[tuple[Path_, Any, Any]]:
    """Each setting with its value, and with how that is written."""
    written = settings.model_dump(mode="json")
    for path, _ in fields(type(settings)):
        value: Any = settings
        text: Any = written
        for part in path:
            value, text = getattr(value, part), text[part]
        yield path, value, text


def _inside(values: dict[str, Any], path: Path_) -> dict[str, Any]:
    """The table at a path, an empty one where there is none."""
    inner: Any = values
    for part in path:
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) else {}


def _types(annotation: Any) -> set[Any]:
    inner = {kind for each in get_args(annotation) for kind in _types(each)}
    return {annotation, *inner}


def _is_secret(model: type[BaseModel], path: Path_) -> bool:
    return any(
        path[: len(known)] == known and SecretStr in _types(described.annotation)
        for known, described in fields(model)
    )


def _meant(model: type[BaseModel], path: Path_) -> str:
    """What a setting that is not there was probably meant to be."""
    known = [known for known, _ in fields(model)]
    beside = {
        k[len(path) - 1] for k in known if len(k) >= len(path) and k[: len(path) - 1] == path[:-1]
    }
    near = did_you_mean(path[-1], sorted(beside))
    if near:
        return f"; {near}"
    elsewhere = [".".join(k) for k in known if k[-1] == path[-1]]
    if elsewhere:
        return f"; did you mean {elsewhere[0]}?"
    return f"; there are {', '.join(sorted(beside))}" if beside else ""


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Put values over those that are there. A secret and the file of that secret replace each
    other."""
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
            continue
        into.pop(f"{name}_file", None)
        into.pop(name.removesuffix("_file"), None)
        into[name] = dict(value) if isinstance(value, Mapping) else value
