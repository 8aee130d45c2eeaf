"""Configurations. Flat: {"grid.nx": 100, "source.1.f0": 15}, as overrides; in sections: {"grid": {"nx": "100"}}."""
import configparser
import math
import numbers
import os
import re
import shlex
from collections.abc import Mapping, Set
from pathlib import Path

from .errors import Error, reason

LONGEST = {"receivers.points": 16383}  # bytes of a value; of all others:
LONGEST_ELSE = 1023


def parse_config(text, name="configuration"):
    """The sections of a configuration's text, with every value as its text."""
    comments = (";", "#")
    parser = configparser.RawConfigParser(comment_prefixes=comments, inline_comment_prefixes=comments)
    parser.optionxform = str
    lines = (line.strip() for line in text.split("\n"))  # an indented line is a line of its own
    try:
        parser.read_string("\n".join(lines), name)
    except configparser.Error as error:
        raise Error(" ".join(str(error).split())) from None
    return {section: dict(parser[section]) for section in parser.sections()}


def read_config(path):
    """The sections of a configuration file."""
    try:
        return parse_config(Path(path).read_bytes().decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise Error(f"{path}: not a text file") from None
    except (OSError, ValueError) as error:  # a name that none can have
        raise Error(f"{path!r:.200}: {reason(error)}" if isinstance(error, ValueError) else f"{path}: {reason(error)}") from None


def flat(keys, before=""):
    """{"section.key": text} of keys that are flat, in sections or both. Refuses what a line of a file could not hold."""
    if not isinstance(keys, Mapping):
        raise Error(f"expected a dictionary of keys, found {type(keys).__name__}")
    found = {}
    for key, value in keys.items():
        inner = flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
        for name, given in inner.items():
            if name in found:
                raise Error(f"{name}: given twice")
            found[name] = text_of(name, given)
    return found


def in_sections(keys):
    """{"section": {"key": text}} of flat keys; the sections in the order of their first key."""
    sections = {}
    for key, text in keys.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = text
    return sections


def config_text(keys):
    """The text of a configuration of flat {"section.key": text}."""
    return "\n".join(f"[{section}]\n" + "".join(f"{name} = {text}\n" for name, text in inner.items())
                     for section, inner in in_sections(keys).items())


def override_words(keys):
    """Flat {"section.key": text} as words of a line of [survey] shots."""
    return " ".join(shlex.quote(f"{key}={text}") for key, text in keys.items())


def write_config(path, keys, comment=""):
    """Writes `keys`, flat or in sections."""
    head = "".join(f"; {line}\n" for line in comment.splitlines()) + "\n" if comment else ""
    try:
        Path(path).write_bytes((head + config_text(flat(keys))).encode(errors="replace"))  # only a comment may need it
    except OSError as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None


def text_of(key, value):
    """A value as the program reads it: truth as on or off, the parts of a sequence with blanks between, sequences with
    commas. An Error unless a line of a file gives it back."""
    if not re.fullmatch(r"[\w.]+\.\w+", key, re.ASCII):
        raise Error(f"{key!r}: expected section.key")
    text, (section, _, name) = words_of(key, value), key.rpartition(".")
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", text):
        raise Error(f"{key}: control characters and what is not UTF-8 cannot be part of a value: {text!r}")
    if parse_config(f"[{section}]\n{name} = {text}\n") != {section: {name: text}}:
        raise Error(f"{key}: blanks at an end, and # or ; after a blank or at the start, cannot be part of a value: {text!r}")
    size, longest = len(text.encode()), LONGEST.get(key, LONGEST_ELSE)
    if size > longest:
        raise Error(f"{key}: its value has {size} bytes, at most {longest} are possible")
    return text


def words_of(key, value):
    """The text of any value."""
    if hasattr(value, "tolist"):  # NumPy's
        value = value.tolist()
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return repr(float(value))
    if not hasattr(value, "__iter__") or isinstance(value, (bytes, Mapping, Set)):
        raise Error(f"{key}: expected a finite number, a text or a sequence of them, found {' '.join(repr(value).split()):.80}")
    parts = [part.tolist() if hasattr(part, "tolist") else part for part in value]
    texts = [words_of(key, part) for part in parts]
    if not texts or "" in texts:
        raise Error(f"{key}: an empty sequence or part of one: it looks like no value")
    return (", " if all(isinstance(part, (list, tuple)) for part in parts) else " ").join(texts)
