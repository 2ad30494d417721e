"""The words of messages."""


def counted(count: int, noun: str, several: str = "") -> str:
    """1 argument, 2 arguments."""
    return f"{count} {noun if count == 1 else several or noun + 's'}"
