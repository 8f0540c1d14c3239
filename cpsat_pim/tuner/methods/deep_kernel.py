"""Deep kernel learning (NicePIM's suggestion model, with GPyTorch) and a Gaussian process of BoTorch."""

from collections.abc import Sequence
from typing import Any

import gpytorch
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP

from cpsat_pim.tuner.methods.gaussian import expected_improvement
from cpsat_pim.tuner.methods.method import ModelSearch
from cpsat_pim.tuner.space import Design

#: The network that maps a design to features of the kernel; the paper states none.
_HIDDEN, _FEATURES = 32, 4
#: Steps of Adam and their size: for the first model, and for each later one, which starts from the one before.
_FIRST_STEPS, _STEPS, _RATE = 200, 10, 0.02


class _Torch(ModelSearch):
    """Tensors of designs and standardised log costs."""

    def scores(self, designs: Sequence[Design]) -> np.ndarray:
        """Fit the model to all costs, and return how promising designs are."""
        torch.manual_seed(self.options.seed + len(self.designs))
        torch.set_num_threads(1)
        targets = self.targets()
        offset, scale = float(targets.mean()), max(1e-9, float(targets.std()))
        x, y = torch.tensor(self.points(self.designs)), torch.tensor((targets - offset) / scale)
        mean, deviation = self.predict(x, y, torch.tensor(self.points(designs)))
        return self.rank(mean, deviation, float(y.min()))

    def predict(self, x: Any, y: Any, at: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation at points."""
        raise NotImplementedError

    def rank(self, mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
        """Return expected improvements."""
        return expected_improvement(mean, np.maximum(deviation, 1e-9), best)


class BoTorchSearch(_Torch):
    """BoTorch's default Gaussian process, and expected improvement among the same candidates as other methods."""

    def predict(self, x: Any, y: Any, at: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation at points."""
        model = SingleTaskGP(x, y[:, None])
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            found = model.posterior(at)
            return found.mean[:, 0].numpy(), found.variance[:, 0].sqrt().numpy()


class _DeepKernel(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A Gaussian process over features that a network computes."""

    def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], _HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(_HIDDEN, _HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(_HIDDEN, _FEATURES),
        ).double()
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=_FEATURES))

    def forward(self, x: Any) -> Any:
        """Return the prior at points."""
        features = self.network(x)
        return gpytorch.distributions.MultivariateNormal(self.mean_module(features), self.covar_module(features))


class DeepKernelByImprovement(_Torch):
    """Network and process are fitted together by the marginal likelihood; expected improvement."""

    state: Any = None

    def predict(self, x: Any, y: Any, at: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation at points."""
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        model = _DeepKernel(x, y, likelihood).double()
        if self.state is not None:
            model.load_state_dict(self.state)
        model.train()
        likelihood.train()
        steps = torch.optim.Adam(model.parameters(), lr=_RATE)
        likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        for _ in range(_FIRST_STEPS if self.state is None else _STEPS):
            steps.zero_grad()
            loss = -likelihood_of(model(x), y)
            loss.backward()
            steps.step()
        self.state = model.state_dict()
        model.eval()
        with torch.no_grad():
            found = model(at)
            return found.mean.numpy(), found.variance.clamp_min(0).sqrt().numpy()


class DeepKernelByMean(DeepKernelByImprovement):
    """NicePIM's rule: the candidate with the best prediction."""

    def rank(self, mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
        """Return predictions, the least cost first."""
        return -mean
