"""What goes wrong, as one line."""


class Error(ValueError):
    """The text says in one line what and why. `code`: what the program would exit with: 1 a key, a value or a call, 2
    an array or a file, 3 numerics, 4 the device, MPI or memory, 75 stopped."""

    def __init__(self, text, code=1):
        super().__init__(" ".join(str(text).split()))
        self.code = code
