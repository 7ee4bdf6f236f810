"""`weir up` and `weir ingest` for a cluster, tested without a cluster: settings, keys from the environment, and feeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.runtime.ray_process import log_ray_message, wait_answers
from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, InvalidInput
from configs.service.up_settings import UpSettings
from configs.yaml_loading import parse_model, parse_yaml
from services.api.routes.feeds import placed_feeds
from services.catalog.catalog import Catalog
from services.cli.main import app
from services.cli.upkeep.up_service import given_keys
from services.cli.upkeep.up_settings import settings_of
from services.common.weir_home import Home
from services.ingest.job import GatewayAddress
from services.ingest.keys import new_key
from services.ingest.progress import SILENT_S, FeedProgress, ToldFeeds
from services.ingest.spark_supervisor import LOOK_S, FollowedFeeds

FILE = StreamsFile.model_validate(
    {
        "streams": {
            "ticks": {
                "columns": {"ts": "timestamp"},
                "time": "ts",
                "source": {"format": "rate", "sql": "SELECT timestamp AS ts FROM source"},
            }
        }
    }
)


# -- settings of a service in a cluster ------------------------------------------------------------------------


def test_options_override_the_file_and_the_file_overrides_defaults(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("live: {lanes: 3}\nservice: {port: 1, admission: 'off'}\n", encoding="utf-8")
    found = settings_of(file, {"--api-port": ("service.port", 2), "--lanes": ("live.lanes", None)})
    expected = UpSettings.model_validate({"live": {"lanes": 3}, "service": {"port": 2, "admission": "off"}})
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("live: {lanes: 0}", "live.lanes"),
        ("lanes: 1", "lanes"),
        ("gateway: {host: node}", "gateway.host"),
        ("- 1", "map of keys"),
    ],
)
def test_a_mistake_in_the_settings_file_is_reported_with_its_key(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as problem:
        settings_of(file, {})
    assert message in str(problem.value)
    assert str(file) in str(problem.value)


def test_a_mistake_on_the_command_line_is_reported_with_its_option(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("live: {lanes: 3}", encoding="utf-8")
    with pytest.raises(InvalidInput) as problem:
        settings_of(file, {"--lanes": ("live.lanes", 0)})
    assert (problem.value.field, problem.value.file) == ("--lanes", "")


def shown(*arguments: str) -> UpSettings:
    done = CliRunner().invoke(app, ["config", "render", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return parse_model(UpSettings, parse_yaml(done.output))


def test_settings_are_shown_with_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("live: {lanes: 3}", encoding="utf-8")
    found = shown("--config", str(file))
    assert found == UpSettings.model_validate({"live": {"lanes": 3}})
    assert shown() == UpSettings()


def test_config_render_computes_settings_from_chart_values(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("config: {live: {lanes: 3}}\napi: {tls: {enabled: true}}", encoding="utf-8")
    second.write_text("config: {live: {lanes: 2, manager: common}}", encoding="utf-8")
    found = shown("-f", str(first), "-f", str(second))
    assert (found.live.lanes, found.live.manager) == (2, "common")
    assert (found.gateway.host, found.cluster.address) == ("node", "127.0.0.1:6379")
    assert found.service.scheme == "https"
    with pytest.raises(InvalidInput, match="this option cannot be combined with --config"):
        shown("-f", str(first), "-c", str(second))


def test_a_cluster_that_does_not_answer_in_time_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="no Ray cluster answers at this address"):
        wait_answers("127.0.0.1:1", 0.1)


# -- keys from the environment ---------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = Catalog(Home(tmp_path))
    yield found
    found.close()


def live(catalog: Catalog) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.principal, one.scopes) for one in catalog.keys.all() if one.revoked_at is None]


def test_registering_the_same_key_from_the_environment_again_adds_no_second_key(catalog: Catalog) -> None:
    key = new_key()
    for _ in range(3):
        catalog.keys.adopt(key, "feeds", ["feeds"], "ops")
    assert live(catalog) == [("feeds", ("feeds",))]
    (holder,) = catalog.known().keys or ()
    assert holder.digest == catalog.keys.digest_of(key.encode())


def test_after_several_keys_are_registered_for_a_principal_only_the_last_two_are_valid(
    catalog: Catalog,
) -> None:
    first, second, third = new_key(), new_key(), new_key()
    for key in (first, second, third):
        catalog.keys.adopt(key, "admin", ["admin"], "ops")
    digests = {one.digest for one in catalog.known().keys or ()}
    assert digests == {catalog.keys.digest_of(key.encode()) for key in (second, third)}
    with pytest.raises(InvalidInput, match="was revoked"):
        catalog.keys.adopt(first, "admin", ["admin"], "ops")


@pytest.mark.parametrize("key", ["", "secret", "weir_short", "weir_" + 40 * " "])
def test_an_invalid_key_is_refused_and_not_shown(catalog: Catalog, key: str) -> None:
    with pytest.raises(InvalidInput, match="the text does not have the form of an API key") as problem:
        catalog.keys.adopt(key, "admin", ["admin"], "ops")
    assert not key.strip() or key not in str(problem.value)


def test_keys_are_read_from_the_environment() -> None:
    environ = {"WEIR_ADMIN_KEY": "a\n", "WEIR_METRICS_KEY": " ", "WEIR_API_KEY": "b"}
    assert given_keys(environ) == {"admin": "a"}


# -- feeds that the service runs -------------------------------------------------------------------------------


@dataclass
class ServiceAnswer:
    """Feeds that the service has to run, and the endpoints to which their streams go."""

    file: StreamsFile | None
    endpoints: Mapping[str, str]


@dataclass
class RecordingSpark:
    """Stand-in for Spark that records which feeds it is asked to run."""

    brought: list[tuple[StreamsFile | None, Mapping[str, str]]] = field(default_factory=list)
    refuses: bool = False

    def bring(self, file: StreamsFile | None, endpoints: Mapping[str, str]) -> None:
        if self.refuses:
            raise InvalidInput("there is no Java")
        self.brought.append((file, endpoints))

    def progress(self) -> Sequence[FeedProgress]:
        return [FeedProgress(name) for file, _ in self.brought[-1:] if file for name in file.all_feeds()]


@dataclass
class Service:
    answer: ServiceAnswer | None
    feeds: ToldFeeds = field(default_factory=ToldFeeds)

    def ask(self) -> ServiceAnswer:
        if self.answer is None:
            raise Away("the service does not answer")
        return self.answer

    def report(self, feeds: Sequence[FeedProgress]) -> None:
        self.feeds.tell(feeds, 0.0)


def looks(following: FollowedFeeds, times: Sequence[int]) -> list[str]:
    problems = []
    for number in times:
        following.look(number * LOOK_S)
        problems.append(following.problem)
    return problems


def test_feeds_are_restarted_only_when_they_or_their_endpoints_change(tmp_path: Path) -> None:
    first, second = {"ticks": "grpc://10.0.0.1:1"}, {"ticks": "grpc://10.0.0.2:1"}
    service, spark, alive = Service(ServiceAnswer(FILE, first)), RecordingSpark(), tmp_path / "alive"
    following = FollowedFeeds(service.ask, service.report, spark, alive)
    assert looks(following, [0, 1, 2]) == ["", "", ""]
    service.answer = None
    assert looks(following, [3]) == ["the service does not answer"]
    service.answer = ServiceAnswer(FILE, dict(first))
    assert looks(following, [4]) == [""]
    service.answer = ServiceAnswer(FILE, second)
    assert looks(following, [5]) == [""]
    service.answer = ServiceAnswer(None, {})
    assert looks(following, [6]) == [""]
    assert spark.brought == [(FILE, first), (FILE, second), (None, {})]
    assert alive.exists()
    assert looks(following, [7]) == [""]
    assert service.feeds.seen(0.0) == ()


def test_states_of_feeds_are_reported_and_a_feed_without_recent_reports_counts_as_stopped() -> None:
    service = Service(ServiceAnswer(FILE, {}))
    looks(FollowedFeeds(service.ask, service.report, RecordingSpark()), [0, 1])
    assert [(one.feed, one.state) for one in service.feeds.seen(SILENT_S / 2)] == [("ticks", "starting")]
    assert [(one.feed, one.state) for one in service.feeds.seen(SILENT_S)] == [("ticks", "stopped")]


def test_feeds_that_cannot_start_are_tried_again() -> None:
    service, spark = Service(ServiceAnswer(FILE, {})), RecordingSpark(refuses=True)
    following = FollowedFeeds(service.ask, service.report, spark)
    assert looks(following, [0]) == ["there is no Java"]
    spark.refuses = False
    assert looks(following, [1]) == [""]
    assert spark.brought == [(FILE, {})]


def test_a_stream_uses_the_endpoint_of_its_own_node() -> None:
    door = GatewayAddress("grpc://first:1", "key", endpoints={"ticks": "grpc://second:1"})
    assert (door.of("ticks"), door.of("hot")) == ("grpc://second:1", "grpc://first:1")


def test_a_feed_without_a_node_does_not_hold_up_other_feeds() -> None:
    streams = {name: {"columns": {"x": "int64"}, "source": {"format": "rate"}} for name in ("ticks", "soon")}
    file = parse_model(StreamsFile, {"streams": streams})
    placed = placed_feeds(file, {"ticks": "grpc://10.0.0.1:1"})
    assert placed is not None
    assert list(placed.all_feeds()) == ["ticks"]
    assert placed_feeds(file, {}) is None


def test_a_message_of_ray_is_logged_in_one_line_without_colours(caplog: pytest.LogCaptureFixture) -> None:
    log_ray_message({"lines": ["\x1b[33mnode n1 is\x1b[0m low\n on memory"], "pid": "raylet"})
    log_ray_message({"lines": ["A worker died or was killed while executing a task.\nWorker ID: 7"]})
    assert [record.getMessage() for record in caplog.records] == ["Ray: node n1 is low on memory"]
