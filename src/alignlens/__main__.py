"""``python -m alignlens`` is the ``alignlens`` command."""

import sys

from alignlens.cli.main import main

sys.exit(main())
