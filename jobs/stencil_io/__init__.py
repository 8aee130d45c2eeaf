"""What stencil.io was called, for one release: the same module."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
import stencil.io

for name in [name for name in sys.modules if name.split(".")[:2] == ["stencil", "io"]]:
    sys.modules[name.replace("stencil.io", "stencil_io", 1)] = sys.modules[name]
