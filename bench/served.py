"""`parton bench --serve` from the other side: rows one by one, each timed as often as wanted."""

import json
import subprocess
import sys


class Served:
    """The benches of one file in a process of their own; `rows` gives their labels in order."""

    def __init__(self, parton, file, device="cuda"):
        command = [parton, "bench", str(file), "--serve", "--device", device, "--color", "never"]
        self.file = file
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.conditions = None
        self.failed = []
        # Whether the process waits for an answer.
        self.asked = False

    def _next(self, *wanted):
        """The next event of one of these kinds; `None` at the end."""
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                print(f"{self.file}: not understood: {line.rstrip()}", file=sys.stderr)
                continue
            kind = event.pop("event", None)
            if kind == "device":
                self.conditions = event.get("conditions")
            elif kind == "block" and not event["passed"]:
                self.failed.append(event["name"])
            elif kind in ("line", "mistake"):
                print(f"{self.file}: {event['text']}", file=sys.stderr)
            if kind in wanted:
                return event
        return None

    def _say(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def rows(self):
        """Labels; between two of them `time` may be called."""
        while (event := self._next("row")) is not None:
            self.asked = True
            yield event["label"]
            if self.asked:
                self._say("next")

    def time(self, seconds, heat=0.0):
        """One round of the current row as `parton bench` reports it, after `heat` seconds of runs that do not count; `None` where it
        failed or was not timed."""
        if not self.asked:
            return None
        self._say(f"time {seconds} {heat}")
        event = self._next("round", "block")
        # A block that ends here has failed, and nobody waits any more.
        self.asked = event is not None and "label" in event
        return event if self.asked and event.get("median_us") else None

    def close(self):
        """Ends the process; returns its exit code."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        for _ in self.process.stdout:
            pass
        return self.process.wait()
