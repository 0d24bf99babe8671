"""The commands `gt` and `kubectl gt`."""
