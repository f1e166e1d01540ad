"""Probe of a Pulsar cluster through its admin interface: availability and retention."""

from __future__ import annotations

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.io.quantities import format_bytes
from lakelog.logstore.base import LogLocation, LogProblem, LogServer
from lakelog.logstore.pulsar.access import Access, Admin


def probe(location: LogLocation) -> LogServer:
    """Requests the names and settings of a cluster; creates no topic. Raises as its use would."""
    admin = Admin(Access(location))
    started = monotonic_s()
    clusters = admin.get("clusters") or []
    millis = (monotonic_s() - started) * 1000
    facts = {"answers in": f"{millis:.0f} ms", "clusters": ", ".join(clusters) or "none"}
    try:
        settings = admin.get("brokers/configuration/runtime") or {}
    except LakelogError:
        problem = LogProblem(
            "the cluster does not report its settings: this user lacks the privilege to read them", "no action needed"
        )
        return LogServer(f"Pulsar at {location.address}", facts, (problem,))
    if "maxMessageSize" in settings:
        facts["largest message"] = format_bytes(int(settings["maxMessageSize"]))
    if "defaultRetentionTimeInMinutes" in settings:
        facts["keeps records"] = (
            f"{settings['defaultRetentionTimeInMinutes']} min, unless the topic has its own retention"
        )
    problems = []
    if str(settings.get("brokerDeleteInactiveTopicsEnabled")).lower() == "true":
        problems.append(
            LogProblem(
                "the brokers delete inactive topics",
                "no action for topics of lakelog, which are exempt; the brokers may delete your other topics",
            )
        )
    return LogServer(f"Pulsar at {location.address}", facts, tuple(problems))
