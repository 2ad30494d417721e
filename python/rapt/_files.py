"""Files that are written whole, or stay as they were."""

import os
import tempfile


def write(path, text):
    """A regular file is replaced through a temporary name beside it; anything else, as a pipe or a link's target, is written to."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
    folder, name = os.path.split(os.fspath(path))
    handle, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if mode is None:  # mkstemp's is for the owner alone
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
