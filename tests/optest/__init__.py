"""PyTorch's own operator tests on the fleet: every operator and element type of `op_db`, compared with the CPU.

python -m tests.optest                       # all, into build/optest.json and docs/operators.md
python -m tests.optest --op add --op linalg  # some, by the beginning of their names, on the terminal
"""
