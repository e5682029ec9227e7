"""What an operation is held against: references, models of its steps, runs of all variants, children that may die."""
