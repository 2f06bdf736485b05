"""Figures for Prometheus, under the names that vLLM has made common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from specmt.serve.engine import Job
from specmt.types import Stats

_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


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
        self._waiting = gauge("num_requests_waiting", "Lines that wait for it.")
        self._success = counter("request_success", "Texts translated.", "model_name")
        self._prompt = counter("prompt_tokens", "Source pieces read.", "model_name")
        self._generated = counter("generation_tokens", "Target pieces committed.", "model_name")
        self._calls = counter("verifier_calls", "Verifier calls, counted per sentence.", "model_name")
        self._drafted = counter("spec_decode_num_draft_tokens", "Tokens drafted.", "model_name")
        self._accepted = counter("spec_decode_num_accepted_tokens", "Drafted tokens accepted.", "model_name")
        self._latency = histogram("e2e_request_latency_seconds", "From the arrival of a text to its translation.")
        self._queued = histogram("request_queue_time_seconds", "From the arrival of a text to its first row.")
        self.responses = counter("http_responses", "Responses by status.", "status")
        self.cache_queries = counter("cache_queries", "Texts looked for in the cache.")
        self.cache_hits = counter("cache_hits", "Texts found there.")

    def watch(self, model: str, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Shows how many sentences are in a session, and how many lines wait for it."""
        for gauge, read in ((self._running, running), (self._waiting, waiting)):
            gauge.labels(model).set_function(read)

    def count(self, model: str, job: Job, now: float) -> None:
        """Counts a text that is translated."""
        stats = sum((each.stats for each in job.translations), Stats())
        self._success.labels(model).inc()
        self._prompt.labels(model).inc(stats.source_tokens)
        self._generated.labels(model).inc(stats.tokens)
        self._calls.labels(model).inc(stats.verifier_calls)
        self._drafted.labels(model).inc(stats.drafted)
        self._accepted.labels(model).inc(stats.accepted)
        self._latency.labels(model).observe(now - job.submitted)
        self._queued.labels(model).observe(max(0.0, (job.started or now) - job.submitted))

    def text(self) -> bytes:
        """Returns everything in Prometheus' text format."""
        return generate_latest(self.registry)
