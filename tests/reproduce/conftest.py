"""Makes tools/reproduce importable. No __init__.py here: the package of that name is the tool."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
