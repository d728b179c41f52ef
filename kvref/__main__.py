"""`python -m kvref` is `kvref`."""

from kvref.cli import main

if __name__ == "__main__":
    main()
