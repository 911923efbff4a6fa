"""``python -m ragsieve``."""

from ragsieve.cli import main

if __name__ == "__main__":
    main()
