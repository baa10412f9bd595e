"""datascope: Shapley importance of groups by brute force, and of rows by its 1-NN method."""

from importlib.metadata import version

from common import answer, pipeline, task, timed
from datascope.importance import ImportanceMethod, ShapleyImportance, SklearnModelAccuracy

arrays = task()


def exact():
    utility = SklearnModelAccuracy(pipeline())
    importance = ShapleyImportance(method=ImportanceMethod.BRUTEFORCE, utility=utility)
    importance.fit(arrays["x"], arrays["y"], provenance=arrays["player"])
    return list(importance.score(arrays["xv"], arrays["yv"]))


answer(version("datascope"), [timed("exact", exact)])
