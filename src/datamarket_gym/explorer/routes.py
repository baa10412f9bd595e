"""Routes of pages: a function that a worker computes is the route, and its parameters are what a request holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.jobs import Client, JobQueue
from datamarket_gym.explorer.security import SentForms, Token
from datamarket_gym.explorer.workers import Function
from datamarket_gym.payout.ledger.entries import require_name
from datamarket_gym.registry import Document


@dataclass(frozen=True)
class Site:
    """Hold what all pages share: the folders and ledgers on show, the queue, the token and the forms that were sent.

    ``closed``: every page asks for the token.
    """

    places: NamedPlaces
    queue: JobQueue
    token: Token = field(default_factory=Token)
    closed: bool = False
    forms: SentForms = field(default_factory=SentForms)


@dataclass(frozen=True)
class Find:
    """Mark a parameter that the server finds by ``find(site, request)``.

    ``fields`` is what the request holds for it: names and types, or a model; None: a text under the parameter's name.
    """

    find: Callable[[Site, Any], Any]
    fields: Mapping[str, Any] | type[BaseModel] | None = None


def _require_named(by: str) -> str:
    require_name(by)
    return by


By = Annotated[str, Field(max_length=200), AfterValidator(_require_named)]
"""The person who does something."""


class Parameters(BaseModel):
    """Base of what a query string holds; others, such as the topic, are not looked at."""

    model_config = ConfigDict(frozen=True)


class Routes(APIRouter):
    """Hold the routes of a page whose answers workers compute."""

    def __init__(self, prefix: str, site: Site) -> None:
        super().__init__(prefix=prefix)
        self._site = site

    def answer(
        self,
        method: str,
        path: str,
        function: Function,
        model: type[BaseModel] | None = None,
        arguments: Callable[[Any], tuple[Any, ...]] | None = None,
        *,
        token: bool | Callable[[Any], bool] = False,
        once: bool = False,
        cache: bool = False,
        long: bool = False,
    ) -> None:
        """Answer requests by ``function(*arguments(request), progress=...)``.

        Without a ``model`` a request holds the function's parameters. With ``token``, or where ``token(request)`` is
        true, the token must be typed; with ``once`` a form is taken once, by the number that its page drew for it.
        """
        site = self._site
        if model is None:
            model, arguments = _model_of(function, method, site, token, once)

        async def route(request: Any, client: Client) -> Response:
            if token(request) if callable(token) else token:
                await site.token.require(request.token)
            values = await run_in_threadpool(arguments, request) if arguments else (request,)
            if once:
                site.forms.require_new(request.once)
            if long:
                return await site.queue.start(function, *values)
            return await site.queue.ask(function, *values, client=client, cache=cache)

        route.__annotations__["request"] = Annotated[model, Query()] if method == "GET" else model
        self.add_api_route(path, route, methods=[method])


def _model_of(
    function: Function, method: str, site: Site, token: object, once: bool
) -> tuple[type[BaseModel], Callable[[Any], tuple[Any, ...]]]:
    """Return what a request holds for the parameters of a function, and what finds their values."""
    hints = get_type_hints(function, include_extras=True)
    finds: dict[str, Callable[[Site, Any], Any] | None] = {}
    fields: dict[str, Any] = {"token": (str, ... if token is True else "")} if token else {}
    fields |= {"once": (str, ...)} if once else {}
    for name, parameter in signature(function).parameters.items():
        if name != "progress":
            default = ... if parameter.default is Parameter.empty else parameter.default
            marks = [m for m in getattr(hints[name], "__metadata__", ()) if isinstance(m, Find)]
            held = marks[0].fields if marks else {name: hints[name]}
            if isinstance(held, type):
                fields |= {key: (each.annotation, each) for key, each in held.model_fields.items()}
            else:
                kinds = {name: str} if held is None else held
                fields |= {key: (kind, default) for key, kind in kinds.items()}
            finds[name] = marks[0].find if marks else None
    base = Parameters if method == "GET" else Document
    model = create_model(function.__name__, __base__=base, **fields)

    def arguments(request: Any) -> tuple[Any, ...]:
        return tuple(
            find(site, request) if find else getattr(request, name) for name, find in finds.items()
        )

    return model, arguments
