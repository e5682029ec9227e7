"""The lessons: what they print of themselves and of this machine, and how they are run, kept and checked."""

from .files import progress, table
from .screen import banner, excerpt

__all__ = ["banner", "excerpt", "progress", "table"]
