"""``python -m ragsieve``."""

from ragsieve.cli.main import main

if __name__ == "__main__":
    main()
