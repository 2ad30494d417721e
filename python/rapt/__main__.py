"""python -m rapt: the command line, where it is installed."""

import os
import shutil
import sys


def main():
    tool = shutil.which("rapt")
    if tool is None:
        print("rapt: expected the tool 'rapt' on the PATH, got none; the package has the library alone (docs/python.md)", file=sys.stderr)
        return 2
    os.execv(tool, [tool, *sys.argv[1:]])


sys.exit(main())
