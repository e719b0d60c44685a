"""`python -m reproduce`: hands over to command.py."""

import sys

from reproduce.command import main

sys.exit(main())
