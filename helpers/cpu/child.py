"""Launches in a child process, under a sanitizer."""
