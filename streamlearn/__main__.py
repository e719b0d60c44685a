"""python -m streamlearn"""

import sys

from streamlearn.cli import main

sys.exit(main())
