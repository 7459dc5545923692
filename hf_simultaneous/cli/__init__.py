"""The command line. Nothing else in the package imports it."""

from .commands import app, main


__all__ = ["app", "main"]
