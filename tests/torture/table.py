"""The table of attacks: what is printed, and what stands in docs/reliability.md."""

import sys

BEGIN = "<!-- torture: begin -->"
END = "<!-- torture: end -->"


class Row:
    """One attack: how often it was tried, what was checked, and what went wrong."""

    def __init__(self, attack, checked):
        self.attack = attack
        self.checked = checked
        self.tries = 0
        self.failures = []
        self.skipped = None

    def tried(self, problems, what):
        """Counts a try; `problems` is a list of what was wrong with it, `what` says which try it was."""
        self.tries += 1
        if problems:
            self.failures.append(f"{what}: {'; '.join(problems)}")
            print(f"  FAILED {self.attack}, {self.failures[-1]}", file=sys.stderr, flush=True)

    def cells(self):
        if self.skipped:
            return [self.attack, "skipped", self.skipped, "-"]
        return [self.attack, str(self.tries), self.checked, str(len(self.failures))]


def markdown(rows):
    lines = ["| attack | tries | what was checked | failures |", "| --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def details(rows, most=5):
    """The first failures of every row, a line each."""
    lines = []
    for row in rows:
        lines += [f"- {row.attack}, {failure}" for failure in row.failures[:most]]
        if len(row.failures) > most:
            lines.append(f"- {row.attack}: {len(row.failures) - most} more")
    return "\n".join(lines)


def write_into(path, text):
    """Replaces what stands between the markers of a document."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    before, rest = document.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")
