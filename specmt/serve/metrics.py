"""Figures for Prometheus, under the names that vLLM has made common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from functools import cache
from typing import Final, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from specmt.serve.engine import Engine, Job

_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@final
class _Drafting(Collector):
    """What came of each way to draft, as sessions tell it."""

    def __init__(self) -> None:
        self.engines: dict[str, Engine] = {}

    @override
    def collect(self) -> Iterator[Metric]:
        told = [
            (model, way, *astuple(each)) for model, one in self.engines.items() for way, each in [*one.tally.items()]
        ]
        for place, (kind, name, text) in enumerate(
            (
                (CounterMetricFamily, "turns", "Turns of a way to draft."),
                (CounterMetricFamily, "tokens", "Target pieces committed by it."),
                (CounterMetricFamily, "seconds", "Seconds that it took."),
                (GaugeMetricFamily, "worth", "Target pieces a second that were last expected of it."),
            ),
            start=2,
        ):
            family = kind(f"specmt_drafting_{name}", text, labels=("model_name", "way"))
            for one in told:
                if one[place] is not None:
                    family.add_metric([str(each) for each in one[:2]], one[place])
            yield family


@final
class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        disable_created_metrics()  # type: ignore[no-untyped-call]

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"specmt_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"specmt_{name}", text, ("model_name",), buckets=_SECONDS, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"specmt_{name}", text, ("model_name",), registry=self.registry)

        self._running = gauge("num_requests_running", "Sentences in the session.")
        self._waiting = gauge("num_characters_waiting", "Characters of texts that wait for it.")
        success = counter("request_success", "Texts translated.", "model_name")
        prompt = counter("prompt_tokens", "Source pieces read.", "model_name")
        generated = counter("generation_tokens", "Target pieces committed.", "model_name")
        calls = counter("verifier_calls", "Verifier calls, counted per sentence.", "model_name")
        drafted = counter("spec_decode_num_draft_tokens", "Tokens drafted.", "model_name")
        accepted = counter("spec_decode_num_accepted_tokens", "Drafted tokens accepted.", "model_name")
        latency = histogram("e2e_request_latency_seconds", "From the arrival of a text to its translation.")
        queued = histogram("request_queue_time_seconds", "From the arrival of a text to its first row.")
        self._drafting = _Drafting()
        self.registry.register(self._drafting)
        counters = success, prompt, generated, calls, drafted, accepted
        # Labels are looked up once.
        self._counters = cache(lambda model: tuple(each.labels(model) for each in counters))
        self._histograms = cache(lambda model: tuple(each.labels(model) for each in (latency, queued)))
        self.responses = counter("http_responses", "Responses by status.", "status")
        self.cache_queries = counter("cache_queries", "Texts looked for in the cache.")
        self.cache_hits = counter("cache_hits", "Texts found there.")

    def watch(self, model: str, engine: Engine) -> None:
        """Shows how many sentences are in a session, how many characters wait for it, and what came of its drafts."""
        self._running.labels(model).set_function(lambda: engine.running)
        self._waiting.labels(model).set_function(lambda: engine.waiting)
        self._drafting.engines[model] = engine

    def count(self, model: str, job: Job, now: float) -> None:
        """Counts a text that is translated."""
        stats = job.stats
        for counter, amount in zip(
            self._counters(model),
            (1, stats.source_tokens, stats.tokens, stats.verifier_calls, stats.drafted, stats.accepted),
            strict=True,
        ):
            counter.inc(amount)
        latency, queued = self._histograms(model)
        latency.observe(now - job.submitted)
        queued.observe(max(0.0, (job.started or now) - job.submitted))

    def text(self) -> bytes:
        """Returns everything in Prometheus' text format."""
        return generate_latest(self.registry)
