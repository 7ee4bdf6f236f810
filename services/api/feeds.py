"""The route of the process that runs Spark: which feeds it is to bring, with the secrets of their sources, and where to."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from configs.streams import StreamsFile
from services.api.bodies import JSON
from services.api.callers import CallerOf
from services.api.live import answered
from services.api.problems import NotRunning, responses
from services.api.schemas import STRING, content
from services.api.service import Service, running
from services.watch.watch import Watch

TOLD: dict[str, Any] = {
    "type": "object",
    "required": ["file", "endpoints"],
    "properties": {
        "file": {
            "type": ["object", "null"],
            "description": "As `weir ingest -f` reads it; null if nothing has a source.",
        },
        "endpoints": {
            "type": "object",
            "additionalProperties": STRING,
            "description": "By stream, the gateway of the node at which it comes in.",
        },
    },
}
SHOWN: dict[int | str, dict[str, Any]] = {200: {"description": "What to bring.", "content": content(TOLD)}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/ingest", tags=["feeds"])

    @routes.get(
        "", operation_id="getFeedsToBring", responses={**SHOWN, **responses("forbidden", "not-running")}
    )
    def to_bring(caller: CallerOf) -> Response:
        """What Spark is to bring. For keys of the scope `feeds` and nobody else: secrets of sources are shown."""
        caller.must_bring_feeds()
        watch, file = running(service.watch), service.catalog.desired().file
        told = {
            "file": None if file is None else file.model_dump(mode="json", by_alias=True),
            "endpoints": {} if file is None else answered(lambda: endpoints(watch, file)),
        }
        return Response(orjson.dumps(told), headers={"Cache-Control": "no-store"}, media_type=JSON)

    return routes


def endpoints(watch: Watch, file: StreamsFile) -> dict[str, str]:
    """Of all streams of the file, or none: a feed has several."""
    found = {name: watch.endpoint_of(name) for name in file.streams}
    missing = [name for name, one in found.items() if one is None]
    if missing:
        told = ", ".join(missing)
        raise NotRunning(f"no node takes {told} yet", hint="it is about to; ask again")
    return {name: one for name, one in found.items() if one is not None}
