"""One commit makes one snapshot: request, conflicts, sequence numbers, manifests."""
