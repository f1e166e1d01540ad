"""Apache Pulsar as the log."""

from __future__ import annotations

from typing import Final

from lakelog.logstore.factory import SERVER, VALUE, VALUE_OR_FILE, LogFactory

PULSAR: Final = LogFactory(
    name="pulsar",
    system="lakelog.logstore.pulsar.system:PulsarLogSystem",
    address="the service URL, like 'pulsar://localhost:6650'",
    schemes=("pulsar", "pulsar+ssl"),
    properties={
        "pulsar.admin.adminUrl": SERVER,
        "pulsar.client.authPluginClassName": VALUE,
        "pulsar.client.authParams": VALUE_OR_FILE,
    },
    extras={"pulsar": "pulsar", "urllib3": "pulsar"},
)
