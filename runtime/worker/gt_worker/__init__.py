"""The worker of GT: one device's process, which runs programs and talks to its peers for collectives."""
