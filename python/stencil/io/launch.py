"""Runs a configuration."""
import fcntl
import numbers
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import tty
import warnings
from collections.abc import Mapping
from pathlib import Path

from .config import flat, in_sections, read_config, write_config
from .errors import Error, RunFailed, reason
from .files import Run

BUILT = Path(__file__).resolve().parents[3] / "build/release/stencil"  # where the source tree's own is


def program_path():
    """The program: $STENCIL, or on PATH, or built in the source tree."""
    found = os.environ.get("STENCIL") or shutil.which("stencil") or (BUILT if BUILT.is_file() else None)
    if not found or not shutil.which(found):
        raise Error(f"{found or 'stencil'}: no such program: build it, or let $STENCIL name it")
    return str(found)


def environment():
    """Lets mpirun run as root and start more ranks than there are cores, as jobs/setup.sh does."""
    wanted = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    if os.geteuid() == 0:
        wanted |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**wanted, **os.environ}


def prepared(config, keys):
    """(file of the configuration, {"section.key": text} of it and the overrides `keys`), with output.path and report.file. A
    dictionary is written to PATH.run.ini, whose folder is made if its parent is there."""
    given = flat(config) if isinstance(config, Mapping) else {
        f"{section}.{key}": text for section, inner in read_config(config).items() for key, text in inner.items()}
    asked = {**given, **keys}
    path = asked["output.path"] = asked.get("output.path") or "output"
    if path.startswith(("~", "$")):
        raise Error(f"output.path: ~ and $ are not expanded: {path!r}")
    asked["report.file"] = asked.get("report.file") or f"{path}.report.json"
    if isinstance(config, Mapping):
        folder, config = Path(path).parent, f"{path}.run.ini"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Error(f"{folder}: cannot make this folder of output.path: {reason(error)}") from None
        write_config(config, given, "written by stencil.io.run")
    return str(config), asked


def run(config, overrides=None, ranks=1, options=(), quiet=False):
    """Runs `config`, the name of a file or a dictionary of keys (flat or in sections; written to PATH.run.ini), with
    `overrides` ({"section.key": value}); returns what it has saved, a Run with its report.

    One rank starts without mpirun; $MPIRUN may name another launcher with its options. `options` are the program's, as
    ("--restart", "auto"). A terminal shows the program's log. Elsewhere a line every 10 % shows progress, and the
    program's warnings become Python's; `quiet` shows the warnings only. The Run keeps them in `warnings`. After Ctrl-C
    the program writes a checkpoint first. Raises RunFailed with the program's error line.
    """
    if not isinstance(config, (str, os.PathLike, Mapping)):
        raise Error(f"run: expected the name of a file or a dictionary of keys, found {type(config).__name__}")
    keys = flat({} if overrides is None else overrides)
    if not isinstance(ranks, numbers.Integral) or ranks < 1:
        raise Error(f"run: ranks: expected an integer >= 1, found {ranks!r}")
    program, (file, asked) = program_path(), prepared(config, keys)
    keys["report.file"] = asked["report.file"]
    launcher = [*os.environ.get("MPIRUN", "mpirun").split(), "-np", str(ranks)] if ranks > 1 else []
    command = [*launcher, program, *(shlex.split(options) if isinstance(options, str) else options), file,
               *(f"{key}={text}" for key, text in keys.items())]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        code, warned = watch(command, errors, quiet)
        errors.seek(0)
        said = errors.read().splitlines()
    if code:
        lines = [line for line in said if line.startswith("stencil: error: ")] or list(filter(str.strip, said))
        line = lines[0] if lines else f"{Path(command[0]).name}: exit code {code}"
        raise RunFailed(line.replace("error: command line: ", "error: overrides: ", 1), code)
    result = Run(asked["output.path"], bool(asked.get("survey.shots")), in_sections(asked), asked["report.file"])
    result.warnings = warned
    return result


def lines_of(descriptor, terminal):
    """The lines that come from the descriptor; with `terminal` they go on to this process's own."""
    rest = b""
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # a terminal that nobody else has open any more
            part = b""
        if terminal:
            os.write(sys.stdout.fileno(), part)
        *lines, rest = (rest + part).split(b"\n") if part else (rest, b"")
        yield from (line.decode(errors="replace").rstrip() for line in lines)
        if not part:
            return


def watch(command, errors, quiet):
    """Runs the command to its end; returns its exit code and its warnings, each once. It has its own session, so
    that Ctrl-C reaches only this process, and, if stdout is a terminal, its own terminal, whose lines are read here."""
    terminal, warned = sys.stdout.isatty() and not quiet, []
    ours, its = pty.openpty() if terminal else os.pipe()
    if terminal:
        sys.stdout.flush()
        tty.setraw(its)
        fcntl.ioctl(its, termios.TIOCSWINSZ, fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8)))
    try:
        process = subprocess.Popen(command, stdout=its, stderr=errors, stdin=subprocess.DEVNULL, env=environment(),
                                   start_new_session=True)
    except OSError as error:
        os.close(ours)
        raise Error(f"{command[0]}: {reason(error)}") from None
    finally:
        os.close(its)
    try:
        for line in lines_of(ours, terminal):
            printed = line.replace("warning: ", "", 1)
            if printed != line and printed not in warned:
                warned.append(printed)
                if not terminal:
                    warnings.warn(printed, stacklevel=3)
            elif not terminal and not quiet and re.match(r" *\d+ %  ", line):
                print(line, flush=True)
        return process.wait(), warned
    except BaseException:  # an interruption, or a warning that a filter makes an error
        process.send_signal(signal.SIGUSR1)
        for _ in lines_of(ours, terminal):
            pass
        process.wait()
        raise
    finally:
        os.close(ours)
