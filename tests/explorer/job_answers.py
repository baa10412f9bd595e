"""Answers that take a while."""

import time


def followed(client, response, seconds=240):
    """The answer to a question, whenever it is there; the explorer itself waits a moment before it says "not yet"."""
    until = time.monotonic() + seconds
    while response.status_code == 202:
        assert time.monotonic() < until, response.text
        response = client.get(f"/api/jobs/{response.json()['job']}")
    return response
