"""What was asked for: one frozen Spec, mirrored field by field by `schemas/*.schema.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Api(StrEnum):
    """Which OpenAI route the questions take."""

    COMPLETIONS = "completions"
    CHAT = "chat"


class ShotSource(StrEnum):
    """Where worked examples come from: the train split (vLLM's way) or the head of test (SGLang's way)."""

    TRAIN = "train"
    TEST_HEAD = "test_head"


class ShotOverlap(StrEnum):
    """When shots are test questions: refuse, skip them in the evaluation, or knowingly leak them."""

    REFUSE = "refuse"
    SKIP = "skip"
    LEAK = "leak"


class ShotsAs(StrEnum):
    """How a chat shows its worked examples: in the text of its one question, or each as a turn of either side."""

    TEXT = "text"
    TURNS = "turns"


class MaxTokensField(StrEnum):
    """What the server calls the longest answer."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class EngineKind(StrEnum):
    """How answers come about: start a server, use a running one, or the bundled answer server."""

    LAUNCH = "launch"
    ATTACH = "attach"
    SIM = "sim"
    REPLAY = "replay"


class Containment(StrEnum):
    """What keeps a launched server from outliving its run; `auto` is the strongest that the machine allows."""

    AUTO = "auto"
    PID_NAMESPACE = "pid-namespace"
    SUBREAPER = "subreaper"


class Method(StrEnum):
    """The decision rule, weakest first; `auto` is the strongest that the comparable history supports.

    `locked` is a count that was derived from history before, reviewed, and kept in a lock file.
    """

    AUTO = "auto"
    STATIC_FLOOR = "static_floor"
    EXACT_BINOMIAL = "exact_binomial"
    BETA_BINOMIAL_PREDICTIVE = "beta_binomial_predictive"
    MODERATED_T = "moderated_t"
    EXACT_MCNEMAR = "exact_mcnemar"
    FLIP_PREDICTION = "flip_prediction"
    EXACT_CONDITIONAL = "exact_conditional"
    LOCKED = "locked"


class EarlyStop(StrEnum):
    """The sequential test that may end a run before its last question."""

    NONE = "none"
    WOR_MIXTURE = "wor_mixture"
    PAIRED_SPRT = "paired_sprt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The weights: hub id or path, how they are pinned and quantised, and what they need."""

    name: str
    revision: str | None = None
    unpinned: str | None = None
    quantization: str | None = None
    tags: tuple[str, ...] = ()
    trust_remote_code: bool = False
    allow_remote_code: bool = False
    path_env: str | None = None
    shipped: str | None = None
    sha256: str | None = None
    architectures: tuple[str, ...] | None = None
    server_args: Mapping[str, tuple[str, ...]]
    server_env: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine a spec asks for.

    `memory_gib` is that of one GPU as its driver reports it. `free_memory_share` is the part of each GPU's memory
    that nobody else may hold when a server is started; 0 allows any use.
    """

    name: str
    vendor: str
    architecture: str | None = None
    gpu: str | None = None
    count: int = 0
    memory_gib: float | None = None
    free_memory_share: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An accuracy someone measured: `correct` of `n`."""

    correct: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A log-normal response time: its median in seconds and the sd of its logarithm."""

    median_s: float = 0.0
    sigma: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of requests that the bundled server spoils, and the answer after which it dies."""

    http_500: float = 0.0
    drop: float = 0.0
    hang: float = 0.0
    truncate: float = 0.0
    empty: float = 0.0
    malformed: float = 0.0
    die_after: int | None = None


class Refuses(StrEnum):
    """When an advisory stops a run: never, or where code of the model's repository may run."""

    NEVER = "never"
    REMOTE_CODE = "remote_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """A published fault of an engine: the versions from `since` (None: the first) up to and without `below` have it."""

    id: str
    below: str
    since: str | None = None
    what: str
    link: str
    refuses: Refuses = Refuses.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The server: how it starts or where it listens, and its common knobs by their neutral names.

    `command`, `packaged`, `install` and `flags` belong to kind launch, `base_url` and `expected_model` to attach,
    `accuracy` to `faults` to sim, `answers` and `variant` to replay. With `foreign_listener` a process may listen that
    does not descend from the command. `effective`, `log_values` and `metrics` say where a server tells what is really
    on: the path in its description, the text around it in its log, the metric's name.
    """

    name: str
    kind: EngineKind
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False
    max_model_len: int | None = None
    enforce_eager: bool = False
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    seed: int | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    packaged: str | None = None
    install: str | None = None
    flags: Mapping[str, str] | None = None
    max_slots: int | None = None
    startup_timeout_s: float = 1200.0
    stall_timeout_s: float | None = None
    containment: Containment = Containment.AUTO
    foreign_listener: bool = False
    health_path: str | None = None
    version_path: str | None = None
    version_key: str = "version"
    info_path: str | None = None
    info_keys: tuple[str, ...] = ()
    effective: Mapping[str, str] | None = None
    log_values: Mapping[str, str] | None = None
    metrics_path: str | None = None
    metrics: Mapping[str, str] | None = None
    require_effective: bool = False
    advisories: tuple[Advisory, ...] = ()
    base_url: str | None = None
    expected_model: str | None = None
    api_key_env: str | None = None
    accuracy: float | None = None
    dispersion: float | None = None
    flip_seed: int | None = None
    latency: Latency | None = None
    faults: Faults | None = None
    answers: str | None = None
    variant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Every field of asking that can move a score. A sampling field that is None is not sent.

    `think_tags` are the text that begins reasoning inside an answer and the one that ends it. `gen_prefix` is what the
    answer begins with. `chat_template_kwargs` and `extra_body` hold texts, numbers, truth values, nulls and lists of
    these, and are sent as they are. Every question is asked `repeats` times, with `seed`, `seed` + 1, ... if it is set.
    """

    name: str
    api: Api
    shots: int
    shots_source: ShotSource
    shots_overlap: ShotOverlap
    shot_template: str
    question_template: str
    system_prompt: str | None = None
    stop: tuple[str, ...]
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    extractor: str
    shots_as: ShotsAs = ShotsAs.TEXT
    think_tags: tuple[str, ...] | None = None
    gen_prefix: str | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: Mapping[str, Any] | None = None
    extra_body: Mapping[str, Any] | None = None
    max_tokens_field: MaxTokensField = MaxTokensField.MAX_TOKENS
    send_model: bool = True
    stream: bool = False
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFile:
    """A pinned dataset file: sha256 of its bytes, its row count, and where it can be downloaded."""

    sha256: str
    rows: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The question set: dataset, where its files are, how many questions and in which order."""

    name: str
    dataset: str
    path: str | None = None
    n: int | None = None
    order_seed: int | None = None
    files: Mapping[str, SplitFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A false-alarm budget: one false alarm in `nights` nights over `gates` gates."""

    nights: int
    gates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUnder:
    """The protocol under which a hand-typed gate was measured; another one makes it INCONCLUSIVE."""

    api: Api | None = None
    shots: int | None = None
    max_tokens: int | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The decision rule and its design parameters. Accuracies and shares are in [0, 1].

    alpha comes from exactly one of `alpha`, `sigmas` and `budget` (the first that is set). `phi0` and `nu0` are
    the prior dispersion of totals and its degrees of freedom, `nu_psi` those of the over-dispersion guard; runs
    on hardware named in `exchangeable_hardware` are pooled with those on the spec's own. The norm is the first
    `baseline_builds` distinct builds since the last rebaseline: later runs are judged by it and never move it.
    `locks` is the folder of lock files, relative to the working directory.
    """

    name: str
    method: Method
    floor: float | None = None
    tolerance: float = 0.0
    observed: Observed | None = None
    alpha: float | None = None
    sigmas: float | None = None
    budget: Budget | None = None
    delta: float | None = None
    beta: float = 0.1
    max_lost_share: float = 0.01
    max_truncated_share: float = 0.02
    max_empty_share: float = 0.02
    measured_under: MeasuredUnder | None = None
    phi0: float = 0.2
    nu0: float = 4.0
    nu_psi: float = 8.0
    exchangeable_hardware: tuple[str, ...] = ()
    baseline_builds: int = 30
    locks: str = "conf/thresholds"
    early_stop: EarlyStop = EarlyStop.NONE
    stop_on_pass: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Where run records are kept: the folder of their files, and the database of their index.

    The database is `url`, or what the environment variable named `url_env` holds; SQLite in `dir` without either.
    """

    name: str
    dir: str
    url: str | None = None
    url_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How hard gatekit asks: requests in flight, attempts, and limits for one request, the run and an outage."""

    concurrency: int
    request_timeout_s: float
    deadline_s: float
    attempts: int
    outage_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One gate, complete: what to serve, on what, how to ask, and how to decide."""

    name: str
    model: Model
    hw: Hardware
    engine: Engine
    protocol: Protocol
    task: Task
    gate: Gate
    history: History
    client: Client

    @property
    def simulated(self) -> bool:
        """Whether the answers come from the bundled server instead of a model."""
        return self.engine.kind in (EngineKind.SIM, EngineKind.REPLAY)
