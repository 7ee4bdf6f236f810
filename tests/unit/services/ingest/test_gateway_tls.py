"""Gateways with TLS: clients that trust the certificate write rows and read answers, and other clients are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark_weir.client import Batch, GatewayClient
from pyspark_weir.errors import GatewayAway, OptionError
from pyspark_weir.options import write_options

from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import Away, InvalidInput
from engine.data.schema import StreamSchema
from services.cli.commands.ingest import door_of
from services.cli.commands.up import from_here
from services.common.gateway_trust import CA_VARIABLE, NAME_VARIABLE, GatewayTrust, trust_from
from services.ingest.declared_streams import EndpointAway, check_gateway
from services.ingest.flight import FlightDoor, FlightSettings
from services.ingest.job import GatewayAddress
from services.ingest.keys import new_key
from services.results.row_parsing import Brought
from services.results.rows import RowDelivery
from services.results.units import LocalAnswers, RemoteAnswers
from tests.support.answer_logs import ClassLog
from tests.support.served import certificate_in

KEY = new_key()
PLAIN = "CREATE STREAM plain (x int64)"
NAME = "gateways.example"
ROWS = pa.table({"x": [1, 2, 3]})


@dataclass
class SecuredGateway:
    """Gateway with a certificate that is valid for NAME, and not for the address at which the gateway listens."""

    dirs: RunDirs
    schema: StreamSchema
    door: FlightDoor
    authorities: Path

    @property
    def trust(self) -> GatewayTrust:
        return GatewayTrust(self.authorities, NAME)

    def rows(self) -> list[int]:
        log = Reader(self.dirs.stream("plain"))
        return [x for _, payload in log.frames(log.first) for x in batch_of(payload).columns[0].data.tolist()]

    def connector(self, **options: str) -> GatewayClient:
        """Return a client of Spark's connector with these options."""
        given = {"endpoint": self.door.address, "apiKey": KEY, "stream": "plain", "timeoutSeconds": "0"}
        return GatewayClient(write_options({**given, **options}, "write").connection)


@pytest.fixture
def secured(dirs: RunDirs, tmp_path: Path) -> Iterator[SecuredGateway]:
    streams = Streams(dirs, lambda: 1.0)
    schema = streams.declare(PLAIN).schema
    streams.keep_for("reader", ["plain"], lossless=True)
    certificate, key = certificate_in(tmp_path, f"DNS:{NAME}")
    door = FlightSettings(certificate=certificate, private_key=key).with_key(KEY).open(streams, dirs)
    yield SecuredGateway(dirs, schema, door, certificate)
    door.close()
    streams.close()


def publish(client: GatewayClient, number: int = 0) -> None:
    given = {"endpoint": "unused:1", "apiKey": KEY, "stream": "plain"}
    client.publish(write_options(given, "write"), Batch("p", number), ROWS)


def test_connector_writes_to_a_gateway_whose_certificate_it_trusts(secured: SecuredGateway) -> None:
    assert secured.door.address.startswith("grpc+tls://127.0.0.1:")
    publish(secured.connector(caFile=str(secured.authorities), serverName=NAME))
    assert secured.rows() == [1, 2, 3]


def test_connector_without_trust_in_the_certificate_writes_no_row(
    secured: SecuredGateway, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger, _ = certificate_in(tmp_path / "other", f"DNS:{NAME}")
    for options in (
        {},
        {"caFile": str(secured.authorities)},
        {"caFile": str(secured.authorities), "serverName": "other.example"},
        {"caFile": str(stranger), "serverName": NAME},
        {"endpoint": secured.door.address.replace("grpc+tls", "grpc")},
    ):
        with pytest.raises(GatewayAway):
            publish(secured.connector(**options))
    assert secured.rows() == []


def test_connector_refuses_a_certificate_file_that_cannot_be_read(secured: SecuredGateway) -> None:
    with pytest.raises(OptionError, match=r"caFile.*a readable PEM file") as raised:
        secured.connector(caFile="/none.pem")
    assert "/none.pem" in str(raised.value)


def test_service_writes_rows_to_a_gateway_with_tls(secured: SecuredGateway) -> None:
    stream = secured.schema
    for trust, accepted in ((GatewayTrust(secured.authorities), False), (secured.trust, True)):
        rows = RowDelivery(lambda _: secured.door.address, lambda: KEY, trust)
        brought = Brought(ROWS.to_batches())
        if accepted:
            assert rows.bring(stream, PLAIN, brought, "acme", "first").accepted == 3
        else:
            with pytest.raises(Away):
                rows.bring(stream, PLAIN, brought, "acme", "first")
    assert secured.rows() == [1, 2, 3]


def test_service_reads_answers_of_another_node_over_tls(secured: SecuredGateway) -> None:
    log = ClassLog(secured.dirs.class_log("gold"), 64 << 10)
    log.commit(5)
    remote = RemoteAnswers(secured.door.address, KEY, "gold", secured.trust)
    assert remote.seen("q") == LocalAnswers(secured.dirs, "gold").seen("q") is not None
    assert RemoteAnswers(secured.door.address, KEY, "gold").seen("q") is None
    log.close()


def test_ingest_checks_its_streams_at_a_gateway_with_tls(secured: SecuredGateway) -> None:
    streams = {"plain": secured.schema}
    address = GatewayAddress(secured.door.address, KEY)
    check_gateway(streams, address.trusting(secured.trust))
    with pytest.raises(EndpointAway):
        check_gateway(streams, address)


def test_environment_variables_set_the_certificate_authorities_and_server_name_of_gateways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, _ = certificate_in(tmp_path)
    assert trust_from({}) == trust_from({CA_VARIABLE: "", NAME_VARIABLE: ""}) == GatewayTrust()
    environ = {CA_VARIABLE: str(certificate), NAME_VARIABLE: NAME}
    assert trust_from(environ) == GatewayTrust(certificate, NAME)
    with pytest.raises(InvalidInput, match=CA_VARIABLE):
        trust_from({CA_VARIABLE: str(tmp_path / "none.pem")})
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    address = door_of("grpc+tls://host:1", KEY)
    assert address == GatewayAddress("grpc+tls://host:1", KEY, ca_file=str(certificate), server_name=NAME)
    with pytest.raises(InvalidInput, match=r"grpc\+tls://HOST:PORT"):
        door_of("https://host:1", KEY)


def test_missing_certificate_of_a_gateway_is_reported_with_the_setting(dirs: RunDirs, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    streams = Streams(dirs, lambda: 1.0)
    with pytest.raises(InvalidInput, match=r"gateway\.tls\.certificate"):
        FlightSettings(certificate=none, private_key=none).with_key(KEY).open(streams, dirs)
    streams.close()


def test_gateway_address_replaced_by_localhost_keeps_its_tls_scheme() -> None:
    assert from_here("grpc+tls://public.example:5005", "0.0.0.0") == "grpc+tls://127.0.0.1:5005"
    assert from_here("grpc+tls://public.example:5005", "public.example") == "grpc+tls://public.example:5005"
