"""The API server: calls with deadlines, watches, and the election of a leader."""
