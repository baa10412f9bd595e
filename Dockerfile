# The package with what a cluster needs; scheduler, workers and the command line are of one image (compose.yaml).
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir ".[dask,fast,payout]"
WORKDIR /work
