"""From what the API server shows to verdicts, plans and status. All functions are pure."""
