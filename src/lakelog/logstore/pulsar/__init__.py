"""Apache Pulsar as the log."""

from __future__ import annotations

from typing import Final

from lakelog.logstore.factory import FILE, SERVER, VALUE, VALUE_OR_FILE, LogFactory

PULSAR: Final = LogFactory(
    name="pulsar",
    system="lakelog.logstore.pulsar.system:PulsarLogSystem",
    address="the service URL, like 'pulsar://localhost:6650'",
    schemes=("pulsar", "pulsar+ssl"),
    properties={
        "pulsar.admin.adminUrl": SERVER,
        "pulsar.client.authPluginClassName": VALUE,
        "pulsar.client.authParams": VALUE_OR_FILE,
        "pulsar.client.tlsTrustCertsFilePath": FILE,
        "pulsar.client.tlsCertificateFilePath": FILE,
        "pulsar.client.tlsKeyFilePath": FILE,
        "pulsar.client.tlsHostnameVerificationEnable": VALUE,
        "pulsar.client.tlsAllowInsecureConnection": VALUE,
        "pulsar.producer.packs": VALUE,
    },
    extras={"pulsar": "pulsar", "urllib3": "pulsar"},
)
