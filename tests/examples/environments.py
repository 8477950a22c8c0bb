"""Environments of the programs that the examples are for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def installed(home: Path, *packages: str) -> Path:
    """Install packages into an environment of their own, and return the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages], check=True)
    return home / "bin"
