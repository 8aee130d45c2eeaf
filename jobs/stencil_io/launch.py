"""Runs a configuration."""
import numbers
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .config import flat, read_config, write_config
from .errors import Error, RunFailed, reason
from .files import Run

BUILT = Path(__file__).resolve().parents[2] / "build/release/stencil"  # where the source tree's own is


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
    """(file of the configuration, [output] path, report.file) of a run with the overrides `keys`, texts. A dictionary is
    written to PATH.run.ini, whose folder is made if its parent is there."""
    given = flat(config) if isinstance(config, Mapping) else {
        f"{section}.{key}": text for section, inner in read_config(config).items() for key, text in inner.items()}

    def effective(key, default):
        return keys.get(key, given.get(key)) or default

    path = effective("output.path", "output")
    if isinstance(config, Mapping):
        folder, config = Path(path).parent, f"{path}.run.ini"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Error(f"{folder}: cannot make this folder of output.path: {reason(error)}") from None
        write_config(config, given, "written by stencil_io.run")
    return str(config), path, effective("report.file", f"{path}.report.json")


def run(config, overrides=None, ranks=1, options=(), quiet=False):
    """Runs `config`, the name of a file or a dictionary of keys (flat or in sections; written to PATH.run.ini), with
    `overrides` ({"section.key": value}); returns what it has saved, a Run with its report.

    One rank starts without mpirun; $MPIRUN may name another launcher with its options. `options` are the program's, as
    ("--restart", "auto"). Progress goes to the terminal as the program draws it, elsewhere a line every 10 %. An
    interruption (Ctrl-C) lets it write a checkpoint first. Raises RunFailed with the program's error line.
    """
    if not isinstance(config, (str, os.PathLike, Mapping)):
        raise Error(f"run: expected the name of a file or a dictionary of keys, found {type(config).__name__}")
    keys = flat({} if overrides is None else overrides)
    if not isinstance(ranks, numbers.Integral) or ranks < 1:
        raise Error(f"run: ranks: expected an integer >= 1, found {ranks!r}")
    program, (file, path, keys["report.file"]) = program_path(), prepared(config, keys)
    launcher = [*os.environ.get("MPIRUN", "mpirun").split(), "-np", str(ranks)] if ranks > 1 else []
    command = [*launcher, program, *(shlex.split(options) if isinstance(options, str) else options),
               *(["--quiet"] if quiet else []), file, *(f"{key}={text}" for key, text in keys.items())]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        code = watch(command, errors)
        errors.seek(0)
        said = errors.read().splitlines()
    if code:
        lines = [line for line in said if line.startswith("stencil: error: ")] or list(filter(str.strip, said))
        line = lines[0] if lines else f"{Path(command[0]).name}: exit code {code}"
        raise RunFailed(line.replace("error: command line: ", "error: overrides: ", 1), code)
    return Run(path)


def watch(command, errors):
    """Runs the command to its end, returns its exit code. Its session is its own, so that Ctrl-C reaches only this one."""
    terminal = sys.stdout.isatty()
    try:
        process = subprocess.Popen(command, stdout=None if terminal else subprocess.PIPE, stderr=errors, text=True,
                                   stdin=subprocess.DEVNULL, env=environment(), start_new_session=True)
    except OSError as error:
        raise Error(f"{command[0]}: {reason(error)}") from None
    with process:
        try:
            for line in process.stdout or ():
                if "%  step" in line:
                    print(line.rstrip(), flush=True)
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGUSR1)
            process.wait()
            raise
