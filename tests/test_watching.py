"""What is in `deploy` for those who watch, judged by a real Prometheus."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from roquet import Message, Producer, PullConsumer, StartFrom
from roquet.broker.metrics.monitored_broker import METRICS as OF_BROKERS
from roquet.cli.serving.broker_process import PORT_STEP
from roquet.grpc.metrics import METRICS as OF_ENDPOINTS
from roquet.monitoring.exposition import MetricKind
from roquet.monitoring.server_metrics import PROCESS_METRICS as OF_PROCESSES
from roquet.namesrv.metrics import METRICS as OF_NAME_SERVERS
from roquet.pipeline.watching.metrics import METRICS as OF_PIPELINES
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.our_cluster import OurCluster
from tests.support.real_prometheus import RealPrometheus, needs_prometheus, promtool

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "roquet.rules.yml"
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))

METRICS = {
    metric.name: metric
    for metric in (*OF_PROCESSES, *OF_BROKERS, *OF_NAME_SERVERS, *OF_ENDPOINTS, *OF_PIPELINES)
}


class Case(NamedTuple):
    """Series that make an alert fire, and the same when all is well; one value a minute."""

    bad: dict[str, str]
    good: dict[str, str]


BROKER = 'job="roquet",instance="h:1",cluster="c",node_type="broker",node_id="a"'
NAMES = 'job="roquet",instance="h:1",cluster="",node_type="nameserver",node_id="n"'
EXPIRY, DAY_S = "roquet_certificate_expiry_timestamp_seconds", 86_400
QUERY = 'job="roquet",instance="h:1",query="ingest lake"'
GROUP = f'{BROKER},consumer_group="g",topic="t",is_retry="false",is_system="false"'


def histogram(name: str, slow: str, labels: str = BROKER) -> dict[str, str]:
    """Of ten a minute: those below a tenth of a second, and all."""
    fast = f'{name}_bucket{{{labels},le="0.1"}}'
    return {
        fast: f"0+{10 - int(slow)}x180",
        f'{name}_bucket{{{labels},le="5"}}': "0+10x180",
        f'{name}_bucket{{{labels},le="+Inf"}}': "0+10x180",
    }


def one(name: str, bad: str, good: str, labels: str = BROKER) -> Case:
    return Case({f"{name}{{{labels}}}": bad}, {f"{name}{{{labels}}}": good})


CASES = {
    "RoquetDown": one("up", "0x180", "1x180", 'job="roquet",instance="h:1"'),
    "RoquetNotReady": one("roquet_ready", "0x180", "1x180"),
    "RoquetNoBrokers": Case(
        {f"roquet_info{{{NAMES}}}": "1x180"},
        {
            f"roquet_info{{{NAMES}}}": "1x180",
            f'roquet_registered_brokers{{{NAMES},broker_cluster="c"}}': "1x180",
        },
    ),
    "RoquetBrokerLost": one("roquet_lost_brokers", "1x180", "0x180", f'{NAMES},broker_cluster="c"'),
    # Series start at 1970, so what is left of a certificate is its expiry less three hours.
    "RoquetCertificateExpires": Case(
        {f"{EXPIRY}{{{BROKER}}}": f"{29 * DAY_S}x180"},
        {f"{EXPIRY}{{{BROKER}}}": f"{31 * DAY_S}x180"},
    ),
    "RoquetCertificateExpired": Case(
        {f"{EXPIRY}{{{BROKER}}}": f"{7 * DAY_S}x180"}, {f"{EXPIRY}{{{BROKER}}}": f"{8 * DAY_S}x180"}
    ),
    "RoquetLoopLate": Case(
        histogram("roquet_event_loop_lag_seconds", "5"),
        histogram("roquet_event_loop_lag_seconds", "0"),
    ),
    "RoquetFewDescriptors": Case(
        {f"process_open_fds{{{BROKER}}}": "900x180", f"process_max_fds{{{BROKER}}}": "1000x180"},
        {f"process_open_fds{{{BROKER}}}": "90x180", f"process_max_fds{{{BROKER}}}": "1000x180"},
    ),
    "RoquetPeersRefused": one("roquet_connections_refused_total", "0+1x180", "7x180"),
    "RoquetRequestsFail": one(
        "roquet_requests_refused_total", "0+60x180", "0+1x180", f'{BROKER},code="system_error"'
    ),
    "RoquetRefusesMessages": one("roquet_store_writable", "0x180", "1x180"),
    "RoquetDiskFilling": Case(
        {
            f"roquet_disk_used_ratio{{{BROKER}}}": "0.88x180",
            f"roquet_disk_full_ratio{{{BROKER}}}": "0.9x180",
        },
        {
            f"roquet_disk_used_ratio{{{BROKER}}}": "0.8x180",
            f"roquet_disk_full_ratio{{{BROKER}}}": "0.9x180",
        },
    ),
    "RoquetDiskFullTomorrow": one("roquet_disk_free_bytes", "1000-1x180", "100000-1x180"),
    "RoquetSlowDisk": Case(
        histogram("roquet_sync_duration_seconds", "5"),
        histogram("roquet_sync_duration_seconds", "0"),
    ),
    "RoquetSlaveAlone": one("roquet_replication_following", "0x180", "1x180"),
    "RoquetSlaveBehind": one(
        "roquet_replication_lag_bytes", "300000000x180", "3x180", f'{BROKER},slave="s"'
    ),
    "RoquetNoLease": one("roquet_replication_lease", "0x180", "1x180"),
    "RoquetReplicationProblem": one("roquet_replication_problem", "1x180", "0x180"),
    "RoquetNoCopies": Case(
        {
            f"roquet_replication_in_sync_slaves{{{BROKER}}}": "0x180",
            f'roquet_replication_role{{{BROKER},role="sync_master"}}': "1x180",
        },
        {
            f"roquet_replication_in_sync_slaves{{{BROKER}}}": "0x180",
            f'roquet_replication_role{{{BROKER},role="async_master"}}': "1x180",
        },
    ),
    "RoquetSendsNotSafe": one(
        "roquet_sends_not_safe_total", "0+1x180", "7x180", f'{BROKER},code="flush_slave_timeout"'
    ),
    # Ten a minute after one a minute, and always one a minute.
    "RoquetRetriesRising": one(
        "roquet_messages_sent_back_total",
        "0+1x160 170+10x20",
        "0+1x180",
        f'{BROKER},consumer_group="g",topic="t"',
    ),
    "RoquetGroupBehind": one("rocketmq_consumer_lag_latency", "400000x180", "4x180", GROUP),
    "RoquetNobodyConsumes": Case(
        {f"rocketmq_consumer_lag_messages{{{GROUP}}}": "5x180"},
        {
            f"rocketmq_consumer_lag_messages{{{GROUP}}}": "5x180",
            f'rocketmq_consumer_connections{{{BROKER},consumer_group="g"}}': "1x180",
        },
    ),
    "RoquetDeadLetters": one(
        "rocketmq_send_to_dlq_messages_total", "0x175 1", "1x180", f'{BROKER},consumer_group="g"'
    ),
    # The good one failed, and runs again.
    "RoquetPipelineFailed": Case(
        {
            f"roquet_pipeline_running{{{QUERY}}}": "1x150 0x30",
            f"roquet_pipeline_failures_total{{{QUERY}}}": "0x150 1x30",
        },
        {
            f"roquet_pipeline_running{{{QUERY}}}": "1x180",
            f"roquet_pipeline_failures_total{{{QUERY}}}": "0x150 1x30",
        },
    ),
    "RoquetPipelineBehind": one("roquet_pipeline_lag_seconds", "1000x180", "10x180", QUERY),
    "RoquetPipelineQuarantines": one(
        "roquet_pipeline_quarantined_total", "0x170 7x10", "7x180", QUERY
    ),
}


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def expressions() -> list[str]:
    panels = [panel for board in BOARDS for panel in json.loads(board.read_text())["panels"]]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [*shown, *(rule["expr"] for rule in alerts().values())]


@needs_prometheus
def test_prometheus_accepts_settings_and_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", RULES)
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_prometheus_finds_the_servers_of_the_units() -> None:
    text = (DEPLOY / "prometheus" / "roquet.targets.yml").read_text()
    (listed,) = yaml.safe_load(text)
    ports = {
        re.findall(r"^httpListen=(\d+)$", path.read_text(), re.MULTILINE)[0]
        for path in (DEPLOY / "systemd").glob("*.conf")
    }
    assert {each.rpartition(":")[2] for each in listed["targets"]} == ports
    # Those of more processes only have to be uncommented.
    commented = [int(port) for port in re.findall(r"# - 127\.0\.0\.1:(\d+)", text)]
    assert commented == [9877 + PORT_STEP * number for number in (1, 2, 3)]


def test_every_metric_that_is_asked_for_exists() -> None:
    histograms = {name for name, each in METRICS.items() if each.kind is MetricKind.HISTOGRAM}
    known = METRICS.keys() - histograms
    known |= {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    asked = {
        name
        for expression in expressions()
        for name in re.findall(r"\b(?:rocketmq|roquet|process)_\w+", expression)
    }
    assert asked
    assert asked <= known


def test_every_label_that_is_asked_for_exists() -> None:
    known = {label for metric in METRICS.values() for label in metric.labels}
    known |= {"cluster", "node_type", "node_id", "instance", "job", "le"}
    asked: set[str] = set()
    for expression in expressions():
        asked.update(re.findall(r"(\w+)=~?\"", expression))
        for listed in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            asked.update(re.findall(r"\w+", listed))
    assert asked <= known


def test_every_alert_says_what_to_do() -> None:
    for rule in alerts().values():
        assert rule["annotations"].keys() == {"summary", "remedy"}


@needs_prometheus
@pytest.mark.full("promtool takes half a minute for sixty trials")
def test_every_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    assert CASES.keys() == alerts().keys()

    def trial(alert: str, series: dict[str, str], count: int) -> dict[str, object]:
        wanted = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
        return {
            "interval": "1m",
            "input_series": [{"series": key, "values": value} for key, value in series.items()],
            "promql_expr_test": [
                {
                    "expr": wanted,
                    "eval_time": "176m",
                    "exp_samples": [{"labels": "{}", "value": count}],
                }
            ],
        }

    trials = [trial(alert, case.bad, 1) for alert, case in CASES.items()]
    trials += [trial(alert, case.good, 0) for alert, case in CASES.items()]
    file = tmp_path / "trials.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": trials}))
    promtool("test", "rules", file)


@needs_prometheus
@pytest.mark.slow
def test_a_running_cluster_is_scraped_and_its_end_is_noticed(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    # Nobody waits minutes here.
    rules.write_text(re.sub(r"for: \w+", "for: 1s", RULES.read_text()))
    cluster = OurCluster(tmp_path / "cluster", "--http", "0")
    with cluster:
        target = cluster.ready_line.strip().rpartition(" http=")[2]
        with Producer(cluster.name_server, "shop") as producer:
            producer.send(Message("orders", b"one coffee"))
        consumer = PullConsumer(cluster.name_server, "billing", start_from=StartFrom.FIRST)
        with consumer:
            consumer.subscribe("orders")
            wait_until(lambda: consumer.poll(timeout_s=1.0))
            consumer.commit()
        with Producer(cluster.name_server, "shop") as producer:
            for _ in range(8):
                producer.send(Message("orders", b"one more"))
        promtool("check", "metrics", stdin=page_of(target, "/metrics").body)
        with RealPrometheus(tmp_path, target, rules) as prometheus:
            wait_until(lambda: prometheus.values("roquet_ready") == [1, 1])
            wait_until(lambda: 9 in prometheus.values("rocketmq_messages_in_total"))
            # Nobody of the group is there any more.
            wait_until(lambda: "RoquetNobodyConsumes" in prometheus.firing())
            assert "RoquetDown" not in prometheus.firing()
            cluster.stop()
            wait_until(lambda: "RoquetDown" in prometheus.firing())
            assert prometheus.firing()["RoquetDown"]["summary"] == f"{target} does not respond"
            cluster.start()
