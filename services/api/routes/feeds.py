"""Routes for the process that runs feeds in Spark: feeds with the secrets of their sources, gateways of streams, and progress."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

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
from services.api.schemas import STRING, RouteResponses, body, content, record, response, typed
from services.api.service import Service, running
from services.ingest.progress import FeedProgress
from services.watch.watch import Watch

TOLD = record(
    {
        "file": typed(
            ["object", "null"],
            "Feeds to run, in the format of `weir ingest -f`; null if no stream has a source.",
        ),
        "endpoints": {
            "type": "object",
            "additionalProperties": STRING,
            "description": "Address of the gateway that takes the rows of a stream, by name of the stream.",
        },
    }
)
SHOWN = response("Feeds that Spark is to run, and the gateway that takes the rows of each stream.", TOLD)


class FeedsProgress(Settings):
    """Progress report of a process that runs feeds, with an entry per feed."""

    feeds: Annotated[tuple[FeedProgress, ...], Field(max_length=10_000)]


BODY = record(
    {
        "feeds": {
            "type": "array",
            "items": record({"feed": STRING, "state": STRING}, optional=("state",)),
            "description": "Progress of each feed, in the format of `weir ingest -o json`.",
        }
    }
)
TAKEN: RouteResponses = {204: {"description": "The service has recorded the progress of the feeds."}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/ingest", tags=["feeds"])

    @routes.get(
        "", operation_id="getFeedsToBring", responses={**SHOWN, **responses("forbidden", "not-running")}
    )
    def list_feeds_to_run(caller: CallerOf) -> Response:
        """List the feeds for Spark to run, with the secrets of their sources. Only for keys with the scope `feeds`."""
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
        openapi_extra=body(content(BODY, example={"feeds": [{"feed": "ticks"}]})),
    )
    def report_feed_progress(request: Request, caller: CallerOf, content: Content) -> Response:
        """Report the progress of the feeds. Metrics show a report for at most half a minute."""
        caller.must_bring_feeds()
        progress = read_model(FeedsProgress, request, content)
        service.told_feeds.tell(progress.feeds, time.monotonic())
        return Response(status_code=204)

    return routes


def endpoints(watch: Watch, file: StreamsFile) -> dict[str, str]:
    """Return the gateway of each stream for which a node already accepts rows."""
    endpoints = {name: watch.endpoint_of(name) for name in file.streams}
    return {name: endpoint for name, endpoint in endpoints.items() if endpoint is not None}


def placed_feeds(file: StreamsFile, there: Mapping[str, str]) -> StreamsFile | None:
    """Return the feeds for which each stream has a gateway. A feed is left out until all its streams have gateways."""
    placed = [name for name, feed in file.all_feeds().items() if there.keys() >= feed.streams.keys()]
    return file.part(placed) if placed else None
