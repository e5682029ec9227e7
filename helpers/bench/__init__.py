"""Times: measured, kept, printed."""
