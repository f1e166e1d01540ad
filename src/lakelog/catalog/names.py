"""The catalog names of a session, and their resolution in statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, did_you_mean

# Catalog names in statements written for Arctic or Amoro, or copied from their manuals.
FORMER_CATALOG_NAMES: Final = ("arctic", "amoro", "catalog")
FIRST: Final = ""
"""The name of the session's first catalog in identifiers, independent of its configured name."""
_SPARKS_OWN: Final = "spark_catalog"


@dataclass(frozen=True)
class CatalogNames:
    """The first catalog by its own name, and the catalogs added later. Names are case-insensitive."""

    first: str
    others: tuple[str, ...] = ()

    def all(self) -> list[str]:
        """All names: the first catalog's, then the others sorted."""
        return [self.first, *sorted(self.others)]

    def has(self, name: str) -> bool:
        """Returns whether a catalog has exactly this name; ``FORMER_CATALOG_NAMES`` do not count."""
        return name.lower() in (known.lower() for known in self.all())

    def find(self, name: str) -> str | None:
        """The catalog of this name, in the form that identifiers use; None for a catalog outside of lakelog.

        A name in ``FORMER_CATALOG_NAMES`` resolves to the first catalog unless another catalog has it.
        """
        if name.lower() == self.first.lower():
            return FIRST
        catalog = next((other for other in self.others if other.lower() == name.lower()), None)
        return FIRST if catalog is None and name.lower() in FORMER_CATALOG_NAMES else catalog

    def need(self, name: str) -> str:
        """Like ``find``, but raises NotFound for an unknown name."""
        catalog = self.find(name)
        if catalog is None:
            raise self.unknown(name)
        return catalog

    def shown(self, catalog: str) -> str:
        """The display name of a catalog of an identifier."""
        return self.first if catalog == FIRST else catalog

    def unknown(self, name: str) -> NotFound:
        """The error for an unknown catalog name; it lists the known ones."""
        known = [*self.all(), *(n for n in FORMER_CATALOG_NAMES if n not in (self.first, *self.others))]
        hint = did_you_mean(name, self.all()) or "."
        return NotFound(f"catalog '{name}' does not exist{hint} Known: {', '.join(known)}")

    def check_new(self, name: str) -> None:
        """Raises AlreadyExists or InvalidRequest for a name that a new catalog cannot have."""
        if not name.strip() or "." in name or "`" in name or name.lower() == _SPARKS_OWN:
            raise InvalidRequest(
                f"'{name}' cannot be the name of a catalog: it must not be blank, contain '.' or '`', or be a name "
                "of Spark's own catalogs"
            )
        if self.has(name):
            raise AlreadyExists(f"catalog '{name}' exists: choose another name, or write IF NOT EXISTS")
