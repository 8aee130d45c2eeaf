"""How much is done, on the terminal."""
import sys
import time

LONG = 30  # characters


class Bar:
    """A line that is redrawn. `wanted`: None: on a terminal."""

    def __init__(self, name, wanted):
        self.name, self.start, self.shown = name, time.monotonic(), False
        self.wanted = sys.stderr is not None and sys.stderr.isatty() if wanted is None else wanted

    def show(self, part):
        if self.wanted:
            self.shown, bar = True, "=" * int(LONG * part)
            seconds = time.monotonic() - self.start
            print(f"\r{self.name} [{bar:{LONG}}] {part:4.0%}  {seconds:.0f} s", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.shown:
            print(file=sys.stderr, flush=True)
