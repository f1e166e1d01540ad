"""The names of a session's catalogs: which of them a word in a statement means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound

# Names that statements written for Arctic, Amoro or from their manuals call the catalog by.
FORMER_CATALOG_NAMES: Final = ("arctic", "amoro", "catalog")
FIRST: Final = ""
"""What identifiers call the catalog that a session began with, whatever name it was given."""
_SPARKS_OWN: Final = "spark_catalog"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``, did you mean 'x'?`` for the nearest known name, else nothing."""
    by_fold = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_fold, 1)
    return f", did you mean '{by_fold[near[0]]}'?" if near else ""


@dataclass(frozen=True)
class CatalogNames:
    """The first catalog by its own name, and the ones that came later. Upper and lower case are the same."""

    first: str
    others: tuple[str, ...] = ()

    def all(self) -> list[str]:
        """All names: the first catalog's, then the others sorted."""
        return [self.first, *sorted(self.others)]

    def has(self, name: str) -> bool:
        """Whether a catalog has this very name; those of old manuals do not count."""
        return name.lower() in (known.lower() for known in self.all())

    def find(self, name: str) -> str | None:
        """The catalog of this name as identifiers have it; None for one that is not lakelog's.

        The names of old manuals mean the first catalog, where no other one has such a name.
        """
        if name.lower() == self.first.lower():
            return FIRST
        own = next((other for other in self.others if other.lower() == name.lower()), None)
        return FIRST if own is None and name.lower() in FORMER_CATALOG_NAMES else own

    def need(self, name: str) -> str:
        """Like ``find``, but a name that is not there is NotFound."""
        found = self.find(name)
        if found is None:
            raise self.unknown(name)
        return found

    def shown(self, catalog: str) -> str:
        """The name to print of a catalog as identifiers have it."""
        return self.first if catalog == FIRST else catalog

    def unknown(self, name: str) -> NotFound:
        """The error to raise for a name that no catalog has; it names those that there are."""
        known = [*self.all(), *(n for n in FORMER_CATALOG_NAMES if n not in (self.first, *self.others))]
        hint = did_you_mean(name, self.all()) or "."
        return NotFound(f"catalog '{name}' does not exist{hint} Known: {', '.join(known)}")

    def check_new(self, name: str) -> None:
        """Raises AlreadyExists or InvalidRequest for a name that a further catalog cannot have."""
        if not name.strip() or "." in name or "`" in name or name.lower() == _SPARKS_OWN:
            raise InvalidRequest(
                f"'{name}' cannot be the name of a catalog: it must not be blank, have '.' or '`', or be Spark's own"
            )
        if self.has(name):
            raise AlreadyExists(f"catalog '{name}' exists: choose another name, or write IF NOT EXISTS")
