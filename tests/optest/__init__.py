"""PyTorch's own operator tests on the fleet: every operator and element type of `op_db`, compared with the CPU.

python -m tests.optest --json build/optest.json  # all, as `make optest`
python -m tests.optest --op add --op linalg      # some, by the beginning of their names
"""
