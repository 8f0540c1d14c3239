"""Hypothesis profiles: in CI the same examples every time."""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=SLOW)
settings.load_profile("ci" if os.environ.get("CI") else "default")
