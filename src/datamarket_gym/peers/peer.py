"""Peers as mechanisms: what pyDVL, shapiq, datascope and OpenDataVal pay the submitted identities, each by itself.

``peer@NAME-VALUATOR``, such as ``peer@pydvl-shapley``: a script of ours, run by the Python of the peer's environment,
speaks the file protocol and hands the peer a game whose players are the identities, valued by the
market's own learner, if that is among `LEARNS`. ``knn5`` is 5-NN Shapley of single units, added up by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from datamarket_gym.core.errors import ParameterError, require_in, require_known
from datamarket_gym.core.parameters import Component
from datamarket_gym.core.registry import register
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.peers.environments import PEERS, installed, python_of
from datamarket_gym.peers.program import DAY, ProgramPayments, run_program
from datamarket_gym.units.submission import Submission

VALUATORS = {f"{peer.name}-{way}": (peer.name, way) for peer in PEERS.values() for way in peer.valuators}
"""What may stand behind ``peer@``: a peer and what it values by."""
_KNN = ("knn", "knn@5")
_GAMES = ("logistic", "coverage", *_KNN)
LEARNS = {"shapley": _GAMES, "banzhaf": _GAMES, "knn5": _KNN}
"""The learners under which each can pay, as they are written."""


@register("mechanism", "peer")
@dataclass(frozen=True)
class Peer(Component):
    """A valuator of another library (``peer@pydvl-shapley``), from an environment of its own."""

    title = "valuator of another library"

    valuator: str
    timeout: float = 3600.0

    def __post_init__(self) -> None:
        require_known("valuator of a peer", [self.valuator], VALUATORS)
        require_in("timeout of the peer", self.timeout, 0.0, DAY, open_low=True)

    @property
    def package(self) -> str:
        """The name of the peer."""
        return VALUATORS[self.valuator][0]

    @property
    def version(self) -> str:
        """The version that is installed; an error with the line that installs it where there is none."""
        python_of(self.package)
        record = installed(self.package)
        assert record is not None
        return str(record["version"])

    def pay(self, submission: Submission, utility: UtilityOracle) -> ProgramPayments:
        """The peer's values of the identities, under the learner that it can be given."""
        python, (name, way) = python_of(self.package), VALUATORS[self.valuator]
        if utility.learns_by not in LEARNS[way]:
            raise ParameterError(
                "learner",
                utility.learns_by,
                f"peer@{self.valuator} pays by {', '.join(LEARNS[way])}: choose one of these",
            )
        with resources.as_file(resources.files("datamarket_gym.peers") / "scripts") as scripts:
            words = [str(python), "-B", "-s", str(scripts / f"{name}_peer.py"), way]
            return run_program(words, submission, utility, self.timeout)
