"""What a benchmark ran on: ratios differ from processor to processor."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """Returns the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
