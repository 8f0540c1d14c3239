"""Gradient-boosted trees (XGBoost): the candidate with the least predicted cost, as NicePIM's comparison has it."""

from collections.abc import Sequence

import numpy as np
from xgboost import XGBRegressor

from cpsat_pim.tuner.methods.method import ModelSearch
from cpsat_pim.tuner.space import Design


class BoostedTrees(ModelSearch):
    """100 trees of depth 4 on log costs; the paper states no settings."""

    def scores(self, designs: Sequence[Design]) -> np.ndarray:
        """Fit the trees to all costs, and return predictions, the least first."""
        trees = XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.1, n_jobs=1, seed=self.options.seed)
        trees.fit(self.points(self.designs), self.targets())
        found: np.ndarray = -trees.predict(self.points(designs)).astype(np.float64)
        return found
