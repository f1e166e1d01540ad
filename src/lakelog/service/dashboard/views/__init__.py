"""What pages show, as frozen values; the JSON API answers with them as they are."""
