# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One unit that a test spoils, starts and stops, and what the modules said of it."""

from __future__ import annotations

import base64
import json
import re
import time

from conftest import CHECKOUT, Outcome, Plays

UNIT = "sglang-k26-ep8.service"
STEPS = str(CHECKOUT / "molecule/waiting/steps.yml")
DROP_IN = f"/etc/systemd/system/{UNIT}.d/trial.conf"
KNOBS = "/run/mock_sglang.env"
SAID = re.compile(r"SAID:([\w+/=]+):")


class Trial:
    """The unit at rest, as the role wrote it; ``go`` stops, starts and waits."""

    def __init__(self, host, plays: Plays) -> None:
        self.host = host
        self.plays = plays
        self.outcome: Outcome | None = None
        self.rest()

    def rest(self) -> None:
        self.host.check_output(
            "rm -rf %s %s; systemctl daemon-reload; systemctl kill -s KILL %s 2>/dev/null; systemctl stop %s; systemctl reset-failed %s 2>/dev/null; true",
            f"{DROP_IN.rpartition('/')[0]}", KNOBS, UNIT, UNIT, UNIT)

    def stand_in(self, **knobs) -> None:
        """How the next start of the stand-in behaves."""
        lines = "".join(f"MOCK_SGLANG_{name.upper()}={value}\n" for name, value in knobs.items())
        self.host.check_output("printf %%s %s > " + KNOBS, lines)

    def service(self, *lines: str) -> None:
        """Further settings of the unit, which the play's daemon-reload makes known."""
        self.host.check_output("mkdir -p %s && printf %%s %s > %s", DROP_IN.rpartition("/")[0], "\n".join(("[Service]", *lines, "")), DROP_IN)

    def start_by_hand(self) -> None:
        self.host.check_output("systemctl daemon-reload; systemctl start --no-block %s", UNIT)

    def begin(self, *arguments: str, **steps):
        return self.plays.start(STEPS, *arguments, **steps), time.monotonic()

    def end(self, begun) -> dict:
        """What the modules answered."""
        self.outcome = self.plays.finish(*begun).succeeded()
        return json.loads(base64.b64decode(SAID.search(self.outcome.text).group(1)))

    def go(self, *arguments: str, **steps) -> dict:
        """Without words of its own: what the role does, a stop, a start and a wait from there."""
        return self.end(self.begin(*arguments, **(steps or ({} if arguments else {"stop": {}, "start": True, "wait": {}}))))

    def waited(self, **wait) -> dict:
        """The answer of the wait for a start from rest."""
        return self.go(stop={}, start=True, wait=wait)["wait"]

    def until(self, seen, seconds: float = 30) -> None:
        """Sleep until something is seen on the host."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, "it did not come to pass"
            time.sleep(0.2)

    def logged(self, text: str) -> bool:
        return text in self.host.run("journalctl --unit %s --output cat --no-pager _SYSTEMD_INVOCATION_ID=%s", UNIT, self.invocation()).stdout

    def invocation(self) -> str:
        return self.host.check_output("systemctl show --value --property InvocationID %s", UNIT)


def code(answer: dict) -> str:
    return (answer["cause"] or {}).get("code", "")
