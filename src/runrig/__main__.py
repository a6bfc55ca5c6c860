"""The program `runrig`, and `python -m runrig`."""

import sys


def main() -> None:
    """Runs the command line. Ctrl-C while it is still being imported shows no stack trace either."""
    try:
        from runrig.cli.main import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(3)


if __name__ == "__main__":
    main()
