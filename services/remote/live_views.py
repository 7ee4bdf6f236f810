"""Views of the running system: each method makes one call of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.remote.wire import quoted


class LiveViews:
    """Calls of a client about the running system. If no tenant is named, a call is about the only tenant that the key may see."""

    def __init__(self, get: Callable[..., dict[str, Any]], tenant: Callable[[], str]) -> None:
        self._get, self._tenant = get, tenant

    def system(self) -> dict[str, Any]:
        return self._get("/v1/system")

    def classes(self) -> list[dict[str, Any]]:
        """Return the classes as `weir top -o json` prints them; with a tenant's key, only the tenant's own class."""
        classes: list[dict[str, Any]] = self._get("/v1/classes")["items"]
        return classes

    def status(self, tenant: str | None = None) -> dict[str, Any]:
        return self._get(f"/v1/tenants/{quoted(tenant or self._tenant())}/status")

    def explain(self, tenant: str | None = None, last: int | None = None) -> dict[str, Any]:
        """Return the last decisions about a tenant's class, as text and with figures."""
        return self._get(f"/v1/tenants/{quoted(tenant or self._tenant())}/explain", last=last)

    def operators(self, tenant: str | None = None) -> dict[str, Any]:
        return self._get(f"/v1/tenants/{quoted(tenant or self._tenant())}/operators")

    def quality(self, tenant: str | None = None) -> dict[str, Any]:
        """Return the quality of a tenant's answers: utility, missed deadlines, staleness."""
        return self._get(f"/v1/tenants/{quoted(tenant or self._tenant())}/quality")

    def ledger(self, tenant: str | None = None) -> dict[str, Any]:
        """Return the ledger (the fates of all tuples) of one tenant, or of all tenants."""
        return self._get("/v1/ledger" if tenant is None else f"/v1/tenants/{quoted(tenant)}/ledger")

    def lending(self, tenant: str | None = None) -> dict[str, Any]:
        return self._get("/v1/lending" if tenant is None else f"/v1/tenants/{quoted(tenant)}/lending")

    def history(self, seconds: int | None = None) -> dict[str, Any]:
        return self._get("/v1/history", seconds=seconds)

    def mirrors(self) -> list[dict[str, Any]]:
        """Return the status of each mirror; with a tenant's key, only the freshness of the mirror."""
        mirrors: list[dict[str, Any]] = self._get("/v1/mirroring")["items"]
        return mirrors

    def mirror_status(self, name: str) -> dict[str, Any]:
        return self._get(f"/v1/mirrors/{quoted(name)}/status")

    def feed_statuses(self) -> list[dict[str, Any]]:
        """Return the status of each feed; with a tenant's key, without sources and errors."""
        feeds: list[dict[str, Any]] = self._get("/v1/feeding")["items"]
        return feeds

    def feed_status(self, name: str) -> dict[str, Any]:
        """Return the status of a feed, or of a stream with a source."""
        return self._get(f"/v1/feeds/{quoted(name)}/status")

    def stream_input(self, name: str) -> dict[str, Any]:
        """Return the numbers of accepted and rejected rows of a stream; empty if the service does not know the stream."""
        feeding = self._get("/v1/feeding")
        streams = [*feeding["pushed"], *(stream for feed in feeding["items"] for stream in feed["streams"])]
        return next((stream for stream in streams if stream["name"].lower() == name.lower()), {})
