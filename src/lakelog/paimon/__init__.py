"""The file format as frozen values and pure codecs; touches no file, no network, no engine."""
