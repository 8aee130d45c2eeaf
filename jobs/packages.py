"""Packages that the scripts of this folder need; a missing one is one line instead of a traceback."""
import importlib.util
import subprocess
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "python"))  # the package stencil that belongs to them
SYSTEM = "/usr/bin/python3"  # to which a distribution's packages belong, whichever python3 is first on PATH


def require(*names):
    """Ends the script unless these packages can be imported."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    cure = ("apt install " + " ".join(f"python3-{name}" for name in missing) + f" and start it with {SYSTEM}, or "
            f"{sys.executable} -m pip install " + " ".join(missing))
    try:
        if subprocess.run([SYSTEM, "-c", "import " + ", ".join(names)], capture_output=True, check=False).returncode == 0:
            cure = f"start it with {SYSTEM}, which has what it needs"
    except OSError:
        pass
    sys.exit(f"{sys.argv[0]}: error: {sys.executable} has no {', '.join(missing)}: {cure}")
