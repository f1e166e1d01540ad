"""The data of pages as frozen values, which are also the answers of the JSON API."""
