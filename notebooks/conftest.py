"""Makes `pytest --nbmake` reach the lessons' kernels as helpers.lessons does: through sockets, not through ports."""

import nbmake.nb_run

from helpers.lessons.kernels import LessonClient

nbmake.nb_run.NotebookClient = LessonClient
