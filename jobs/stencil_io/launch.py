"""Runs a configuration."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .config import read_config, text_of
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


def run(config, overrides=None, ranks=1, options=(), quiet=False):
    """Runs the file `config` with `overrides` ({"section.key": value}); returns what it has saved, a Run with its report.

    One rank starts without mpirun; $MPIRUN may name another launcher with its options. `options` are the program's, as
    ("--restart", "auto"). Progress goes to the terminal as the program draws it, elsewhere a line every 10 %. An
    interruption (Ctrl-C) lets it write a checkpoint first. Raises RunFailed with the program's error line.
    """
    sections, keys = read_config(config), dict(overrides or {})

    def effective(section, name, default):
        return str(keys.get(f"{section}.{name}") or sections.get(section, {}).get(name) or default)

    path = effective("output", "path", "output")
    keys["report.file"] = effective("report", "file", f"{path}.report.json")
    launcher = [*os.environ.get("MPIRUN", "mpirun").split(), "-np", str(ranks)] if ranks > 1 else []
    command = [*launcher, program_path(), *options, *(["--quiet"] if quiet else []), str(config),
               *(f"{key}={text_of(value)}" for key, value in keys.items())]
    with tempfile.TemporaryFile("w+") as errors:
        code = watch(command, errors)
        errors.seek(0)
        said = errors.read().splitlines()
    if code:
        lines = [line for line in said if line.startswith("stencil: error: ")] or list(filter(str.strip, said))
        raise RunFailed(lines[0] if lines else f"{Path(command[0]).name}: exit code {code}", code)
    return Run(path)


def watch(command, errors):
    """Runs the command to its end, returns its exit code. Its session is its own, so that Ctrl-C reaches only this one."""
    terminal = sys.stdout.isatty()
    try:
        process = subprocess.Popen(command, stdout=None if terminal else subprocess.PIPE, stderr=errors, text=True,
                                   stdin=subprocess.DEVNULL, env=environment(), start_new_session=True)
    except OSError as error:
        raise Error(f"{command[0]}: {reason(error)}") from None
    try:
        for line in process.stdout or ():
            if "%  step" in line:
                print(line.rstrip(), flush=True)
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGUSR1)
        process.wait()
        raise
