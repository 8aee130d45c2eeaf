"""What goes wrong, as one line."""
import re

from ..errors import Error


class RunFailed(Error):
    """The program's own error line, and its exit code."""


def reason(error):
    """Why a file cannot be used, in a few words: of an OSError, also one of h5py, whose text holds much more."""
    told = re.search("error message = '([^']*)'", str(error))
    return told.group(1) if told else getattr(error, "strerror", None) or str(error)
