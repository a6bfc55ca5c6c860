"""`python -m runrig` is the command line."""

from runrig.cli.main import main

main()
