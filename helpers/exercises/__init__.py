"""The checkers of the exercises, one file a group of lessons."""
