"""Steps: what a routine is made of. Each works on the local registers of one run of its routine."""
