"""What goes wrong, as one line."""
import re


class Error(ValueError):
    """Something that cannot be read, written or mapped; the text says what and why."""


class RunFailed(Error):
    """The program's own error line; `code` is its exit code: 1 usage or configuration, 2 files, 3 numerics, 4 device or
    MPI, 75 stopped early with a checkpoint."""

    def __init__(self, line, code):
        super().__init__(line)
        self.code = code


def reason(error):
    """Why a file cannot be used, in a few words: of an OSError, also one of h5py, whose text holds much more."""
    printed = re.search("error message = '([^']*)'", str(error))
    return printed.group(1) if printed else getattr(error, "strerror", None) or str(error)
