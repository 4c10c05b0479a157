"""`python -m evovpo`: the same command line as `evovpo`."""

from evovpo.cli import main

if __name__ == "__main__":
    main()
