"""Detection of secret values by the names of their options, for options that are not declared."""

from __future__ import annotations

import re
from typing import Final

from lakelog.options.parts import SECRETS

HIDDEN: Final = "******"
"""The text that is shown instead of a secret."""

REFERENCE: Final = "secret:"
"""Prefix of a reference to a secret: ``secret:<provider>:<name>``."""

_SOUNDS_SECRET: Final = re.compile(
    r"(?i)secret|passw|passphrase|pwd|token|credential|(?:access|account|api|private|shared|encryption)[-._]?key"
    r"|(?:keystore|customer|kms|master)[-._]?key|key[-._]pem|user[-._]?info|service[-._]?account"
    r"|auth[-._]?params|authorization|bearer|cookie|signature|connection[-._]?string|jaas"
    r"|(?:^|[-._])(?:sas|sig)(?:$|[-._])|[-._]auth$"
)
USER_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_PARAMETER: Final = re.compile(r"(?<=[?&;])([\w.\-]{1,100}+)=([^&;#\s'\"`]++)")
"""A parameter of a URL, and its value."""
_PART: Final = re.compile(
    r"""(?:(?<=[?&;#\s,({"'])|^)([\w.\-]{1,100}+)(["']?\s*[=:]\s*)('[^']*'|"[^"]*"|[^&;#\s'"`,)}]++)"""
)
"""A part of a connection string, of JSON or of a fragment, what is between its name and its value, and the value."""
_BEARER: Final = re.compile(r"(?i)(?<=\bbearer )\S+")


def is_reference(value: str) -> bool:
    """True for a reference to a secret, which may be stored."""
    return value.startswith(REFERENCE)


def is_known_reference(value: str) -> bool:
    """True for a reference of a known provider, which may be shown: a password may begin with the prefix."""
    kind, colon, name = value.removeprefix(REFERENCE).partition(":")
    return is_reference(value) and bool(colon and name) and kind in SECRETS


def looks_secret(key: str) -> bool:
    """True if an option of this name, in any system, probably holds a secret."""
    return _SOUNDS_SECRET.search(key) is not None


def without_password(value: str) -> str:
    """The value, with user and password in URLs hidden, and parameters and parts with the name of a secret."""

    def shown(part: re.Match[str]) -> str:
        return f"{part[1]}{part[2]}{HIDDEN}" if looks_secret(part[1]) else part[0]

    plain = _without_parameters(USER_IN_URL.sub(HIDDEN, _BEARER.sub(HIDDEN, value)), HIDDEN)
    return _PART.sub(shown, plain)


def masked_urls(text: str) -> str:
    """The text with asterisks, as many as characters, in place of what ``without_password`` hides."""
    shown = USER_IN_URL.sub(lambda user: "*" * len(user[0]), text) if "://" in text and "@" in text else text
    return _without_parameters(shown, None) if "=" in shown else shown


def _without_parameters(text: str, hidden: str | None) -> str:
    def shown(parameter: re.Match[str]) -> str:
        if not looks_secret(parameter[1]):
            return parameter[0]
        return f"{parameter[1]}={'*' * len(parameter[2]) if hidden is None else hidden}"

    return _PARAMETER.sub(shown, text)
