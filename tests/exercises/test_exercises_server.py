"""The checkers of lesson 31 accept the solution and refuse answers known to be wrong."""

from answers import accept_and_refuse

from helpers.exercises import server as exercises


def first_come(needs, places, free):
    count = 0
    for need in needs[:places]:
        if need > free:
            break
        free -= need
        count += 1
    return count


RIGHT = {
    "lengths_of_rows": [lambda n, drafts: [max(0, n - drafts + row) for row in range(drafts + 1)]],
    "admitted": [first_come],
}
WRONG = {
    "lengths_of_rows": {
        "below 0": lambda n, drafts: [n - drafts + row for row in range(drafts + 1)],
        "at least 1": lambda n, drafts: [max(1, n - drafts + row) for row in range(drafts + 1)],
        "one too many": lambda n, drafts: [max(0, n - drafts + row + 1) for row in range(drafts + 1)],
        "newest first": lambda n, drafts: [max(0, n - row) for row in range(drafts + 1)],
        "the drafts alone": lambda n, drafts: [max(0, n - drafts + row) for row in range(drafts)],
        "all the same": lambda n, drafts: [n] * (drafts + 1),
        "absolute": lambda n, drafts: [abs(n - drafts + row) for row in range(drafts + 1)],
        "nothing": lambda n, drafts: None,
    },
    "admitted": {
        "overtakes": lambda needs, places, free: len([n for n in needs if n <= free][:places]),
        "promises twice": lambda needs, places, free: next(
            (i for i, n in enumerate(needs[:places]) if n > free), len(needs[:places])
        ),
        "no places": lambda needs, places, free: first_come(needs, len(needs), free),
        "no pages": lambda needs, places, free: min(len(needs), places),
        "keeps one back": lambda needs, places, free: first_come(needs, places, free - 1),
        "the short ones first": lambda needs, places, free: first_come(sorted(needs), places, free),
        "skips the long ones": lambda needs, places, free: sum(
            sum(n for n in needs[: i + 1] if n <= free) <= free and needs[i] <= free for i in range(len(needs))
        ),
        "nothing": lambda needs, places, free: None,
    },
}


test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises, RIGHT, WRONG)
