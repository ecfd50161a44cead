# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges who listens on the port, and what the server answers: the causes that a wait reads from outside of the process."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils import _wait_cause as causes
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._seen import Seen

FOREIGN_LOOK = 0.2  # seconds to the second look at somebody else's listener
FOREIGN_DRAIN = 45.0  # seconds that a listener which says it is not ready has to leave the port, while ours has not come to bind it
FOREIGN_ANSWER = 1.5  # seconds that listener has to say which model it serves


def of_listener(seen: Seen, now: float) -> Cause | None:
    """Somebody else has the port."""
    if seen.foreign_since is None or seen.foreign_looks < 2 or not seen.watch.active:
        return None
    if seen.ladder.in_flight and now - seen.foreign_since < FOREIGN_ANSWER:
        return None
    if seen.foreign_before and seen.foreign_drains and not seen.phases.binds and now - seen.foreign_since < FOREIGN_DRAIN - 1e-6:
        return None
    found = seen.best()
    words = seen.words()
    if found is not None and found.code == "port_in_use":
        return causes.of_finding(found, words)
    line = seen.story.find("ready to roll")
    owner = words.get("owner", "")
    if seen.foreign_ids is not None:
        served = ", ".join(seen.foreign_ids[:3]) or "no model"
        also = seen.options.model in seen.foreign_ids
        owner += f", which serves {served} too" if also else f", which serves {served} where {seen.options.model or 'any model'} is expected"
    return causes.make("foreign_listener", {**words, "owner": owner}, line)


def of_answers(seen: Seen, now: float) -> Cause | None:
    """Answers that were wrong for long enough to be final."""
    meaning = seen.ladder.persistent(now)
    if not meaning:
        return None
    item = seen.ladder.bad[meaning]
    words, text = seen.words(), seen.redactor.clean(item["text"])
    if meaning == "auth":
        return causes.make("auth", {**words, "status": f" ({item['status']})"}, text, seen=item["count"])
    if meaning == "wrong_model":
        found = ", ".join(seen.ladder.found[:4])
        return causes.make(
            "wrong_model", {**words, "found": found, "wanted": seen.options.model}, f"/v1/models: {found}", seen=item["count"]
        )
    if meaning == "not_our_server" and ": tls " in text:
        cause = causes.make(
            "not_our_server",
            words,
            text,
            seen=item["count"],
            hint="Set ca_path to the CA of the server's certificate, host to a name that is in it, or scheme to what the server speaks.",
        )
        cause.summary = "The server cannot be asked over TLS: %s." % text.partition(": tls ")[2].rstrip(".")
        return cause
    if meaning == "not_our_server":
        return causes.make("not_our_server", {**words, "got": text}, text, seen=item["count"])
    if meaning == "refused_token":
        cause = causes.make(
            "warmup_failed",
            words,
            text,
            hint="Set generate: false for a model that does not generate text, else see what the server refuses.",
            seen=item["count"],
        )
        cause.summary = "The server refuses the one-token request of this wait."
        return cause
    return causes.make(
        "engine_dead",
        words,
        text,
        hint="Read the journal of the unit, then restart it; the one-token request of this wait got no token.",
        seen=item["count"],
    )
