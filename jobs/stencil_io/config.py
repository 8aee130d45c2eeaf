"""Configurations. Flat: {"grid.nx": 100, "source.1.f0": 15}, as overrides; in sections: {"grid": {"nx": "100"}}."""
import configparser
from pathlib import Path

from .errors import Error, reason


def parse_config(text, name="configuration"):
    """The sections of a configuration's text, with every value as its text."""
    comments = (";", "#")
    parser = configparser.RawConfigParser(comment_prefixes=comments, inline_comment_prefixes=comments)
    parser.optionxform = str
    lines = (line.strip() for line in text.splitlines())  # an indented line is a line of its own
    try:
        parser.read_string("\n".join(lines), name)
    except configparser.Error as error:
        raise Error(" ".join(str(error).split())) from None
    return {section: dict(parser[section]) for section in parser.sections()}


def read_config(path):
    """The sections of a configuration file."""
    try:
        return parse_config(Path(path).read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise Error(f"{path}: not a text file") from None
    except OSError as error:
        raise Error(f"{path}: {reason(error)}") from None


def write_config(path, keys, comment=""):
    """Writes flat `keys`, the sections in the order of their first key."""
    sections = {}
    for key, value in keys.items():
        section, _, name = key.rpartition(".")
        if not section:
            raise Error(f"{key}: expected section.key")
        sections.setdefault(section, []).append(f"{name} = {text_of(value)}\n")
    head = f"; {comment}\n\n" if comment else ""
    try:
        Path(path).write_text(head + "\n".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()))
    except OSError as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None


def text_of(value):
    """A value as the program reads it: sequences as their parts with spaces between, truth as on or off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, Path)):
        return str(value)
    if hasattr(value, "__iter__"):
        return " ".join(text_of(part) for part in value)
    return repr(value.item() if hasattr(value, "item") else value)
