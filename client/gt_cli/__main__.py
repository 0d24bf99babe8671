"""`python -m gt_cli`: the `gt` command."""

from gt_cli.main import run

if __name__ == "__main__":
    run()
