"""Routes of the process that runs Spark: which feeds it is to bring, with the secrets of their sources, and where to; and how
they fare."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from configs.base import Settings
from configs.documents.spark_streams import StreamsFile
from services.api.callers import CallerOf
from services.api.problems import BODY_PROBLEMS, responses
from services.api.request_bodies import JSON, Content, read_model
from services.api.routes.live import answered
from services.api.schemas import STRING, content
from services.api.service import Service, running
from services.ingest.progress import FeedProgress
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


class FeedsProgress(Settings):
    """Of all feeds that are brought."""

    feeds: Annotated[tuple[FeedProgress, ...], Field(max_length=10_000)]


BODY: dict[str, Any] = {
    "type": "object",
    "required": ["feeds"],
    "properties": {
        "feeds": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["feed"],
                "properties": {"feed": STRING, "state": STRING},
            },
            "description": "As `weir ingest -o json` prints them.",
        }
    },
}
TAKEN: dict[int | str, dict[str, Any]] = {204: {"description": "Metrics tell of it."}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/ingest", tags=["feeds"])

    @routes.get(
        "", operation_id="getFeedsToBring", responses={**SHOWN, **responses("forbidden", "not-running")}
    )
    def to_bring(caller: CallerOf) -> Response:
        """What Spark is to bring. For keys of the scope `feeds` and nobody else: secrets of sources are shown."""
        caller.must_bring_feeds()
        watch, file = running(service.watch, service), service.catalog.desired().file
        there = {} if file is None else answered(lambda: endpoints(watch, file))
        placed = None if file is None else placed_feeds(file, there)
        content = {
            "file": None if placed is None else placed.model_dump(mode="json", by_alias=True),
            "endpoints": {} if placed is None else {name: there[name] for name in placed.streams},
        }
        return Response(orjson.dumps(content), headers={"Cache-Control": "no-store"}, media_type=JSON)

    @routes.put(
        "/progress",
        operation_id="tellFeedProgress",
        status_code=204,
        responses=TAKEN | BODY_PROBLEMS | responses("forbidden"),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": content(BODY, example={"feeds": [{"feed": "ticks"}]}),
            }
        },
    )
    def tell_progress(request: Request, caller: CallerOf, body: Content) -> Response:
        """How the feeds fare, by who brings them; metrics tell of it for half a minute."""
        caller.must_bring_feeds()
        progress = read_model(FeedsProgress, request, body)
        service.told_feeds.tell(progress.feeds, time.monotonic())
        return Response(status_code=204)

    return routes


def endpoints(watch: Watch, file: StreamsFile) -> dict[str, str]:
    """Gateways by stream, of the streams that a node takes already."""
    endpoints = {name: watch.endpoint_of(name) for name in file.streams}
    return {name: endpoint for name, endpoint in endpoints.items() if endpoint is not None}


def placed_feeds(file: StreamsFile, there: Mapping[str, str]) -> StreamsFile | None:
    """The feeds of which all streams have a gateway: a feed that has to wait for one keeps no other waiting."""
    placed = [name for name, feed in file.all_feeds().items() if there.keys() >= feed.streams.keys()]
    return file.part(placed) if placed else None
