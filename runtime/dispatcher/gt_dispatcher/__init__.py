"""The dispatcher: rewrites clients' instructions into sharded programs for the workers."""
