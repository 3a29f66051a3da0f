"""Label Studio: a backend that learns from submitted annotations, and import and export of tasks.

    python -m metriclearn.apps.label_studio serve FOLDER

The other commands are ``read`` and ``write``. The backend answers the requests of label-studio-ml
(/health, /setup, /predict, /webhook).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import metriclearn
from metriclearn import BundleDual, ChangePointMetricLearner, Segmenter, datasets, running
from metriclearn.apps.label_studio.interface import Clock, Interface
from metriclearn.apps.label_studio.tasks import (
    PathLike,
    file_of,
    read_tasks,
    recording_name,
    regions_of,
    table_of,
    write_tasks,
)
from metriclearn.apps.models import extractor_of, labeled_rows, model_of
from metriclearn.apps.web import Guard, Refusal, answer, answered, bound
from metriclearn.datasets import UNKNOWN, Segment
from metriclearn.estimators import Calibration
from metriclearn.running import Positive, needs, optional, run_program, sentence
from metriclearn.views import Windows

_LOGGER = logging.getLogger(__name__)
_LARGEST_BODY = 16_000_000  # bytes
_MOST_CHANGES = 16  # in a piece of a recording, as the time to learn grows with their square
_LEARNED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
_EVENTS = (*_LEARNED, "ANNOTATION_DELETED", "ANNOTATIONS_DELETED", "START_TRAINING")


class Task(NamedTuple):
    """The data of a task: its rows of features, and the time of each row in seconds."""

    name: str
    X: NDArray[np.float64]
    columns: list[str]
    times: NDArray[np.float64]
    clock: Clock
    length: float


class Backend:
    """Learns a model for every project of Label Studio from the annotations submitted so far.

    ``fit(event, data)`` and ``predict(tasks, label_config)`` are called by label-studio-ml.
    Annotations and models are stored in a folder, so they are not lost when the backend is
    restarted.

    Parameters
    ----------
    folder : path
        The folder of the recordings, or of the tables of time series. Tasks refer to these files by
        name.
    state : path, optional
        Folder for annotations and models. The default is ``.label_studio`` in ``folder``.
    rate : float
        Rows per second of the features of sound, and of tables without a column of times.
    learner : learner, optional
        A :class:`~metriclearn.Segmenter`, or the only member of one. The default is
        a ``ChangePointMetricLearner`` behind ``views.Windows()``, which learns in seconds.

    Raises
    ------
    NotADirectoryError
        If there is no such folder.
    ValueError
        If the rate is not a positive number.

    See Also
    --------
    read_tasks, write_tasks : read exports and write imports (JSON).

    Examples
    --------
    >>> from metriclearn.apps.label_studio import Backend
    >>> backend = Backend("recordings")  # doctest: +SKIP
    >>> backend.fit("ANNOTATION_CREATED", event)  # doctest: +SKIP
    """

    @needs
    def __init__(
        self,
        folder: PathLike,
        *,
        state: PathLike | None = None,
        rate: Annotated[float, Positive()] = 4.0,
        learner: Any = None,
    ) -> None:
        self.folder, self.rate = Path(folder), rate
        if not self.folder.is_dir():
            raise NotADirectoryError(
                f"{str(folder)!r} is not a folder; pass the folder of the files."
            )
        self.state = Path(state) if state is not None else self.folder / ".label_studio"
        # learns from levels and from how much a signal moves, at several scales
        options: Any = {"solver": BundleDual(tolerance=1e-2), "retune": True, "verbose": False}
        quick = ChangePointMetricLearner(view=Windows(), **options)
        self.learner = quick if learner is None else learner

    def fit(self, event: str, data: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Save the annotation of an event, and learn again from all annotations of the project.

        Returns
        -------
        dict
            ``model_version``, or ``waiting`` with the reason why nothing could be learned yet.
        """
        if not self.keep(event, data):
            return {"waiting": f"The event {event} is not learned from."}
        return self.learn(_project(data))

    def keep(self, event: str, data: Mapping[str, Any]) -> bool:
        """Save the annotations of an event. Returns whether the model should learn from this
        event."""
        if event not in _EVENTS:
            return False
        project = _project(data)
        annotations = _many(data.get("annotation")) + _many(data.get("annotations"))
        tasks = {str(one.get("id")): one for one in _many(data.get("task"))}
        self.state.mkdir(parents=True, exist_ok=True)
        with running.locked(self.state):
            content = self._content(project)
            content["config"] = _config(data) or content["config"]
            for one in annotations:
                number, home = str(one.get("id")), str(one.get("task"))
                if one.get("task") is None:
                    home = next(iter(tasks), home)
                task = tasks.get(home) or content["tasks"].get(home)
                if task is None and event in _LEARNED:
                    _LOGGER.warning("Left out: annotation %s, whose task is unknown", number)
                    continue
                for known in content["tasks"].values():
                    known["annotations"].pop(number, None)
                if task is not None and event in _LEARNED:
                    place = content["tasks"].setdefault(home, {"annotations": {}})
                    place.update(id=task.get("id"), data=task.get("data"))
                    place["annotations"][number] = one
            self._write(project, content)
        return True

    def learn(self, project: str) -> dict[str, Any]:
        """Learn from all annotations of a project, and save the model with a new version number."""
        content = self._content(project)
        config = content["config"]
        if not config:
            return {"waiting": "The project has no labeling configuration yet."}
        interface, found = Interface.read(config), dict[str, tuple[Task, list[Segment]]]()
        for task in content["tasks"].values():
            given = task | {"annotations": list(task["annotations"].values())}
            try:
                segments = read_tasks([given], config, folder=self.folder, rate=self.rate)
                if segments.keys() & found:
                    raise ValueError(
                        f"Task {task.get('id')} has the file of another task, "
                        f"{next(iter(segments))!r}; remove one of them."
                    )
                found |= {name: (self.task(given, interface), segments[name]) for name in segments}
            except (ValueError, OSError) as error:
                _LOGGER.warning("Left out: %s", sentence(error))
        if not found:
            return {"waiting": "No task has an annotation with regions yet."}
        plain = not any(label for _, spans in found.values() for *_, label in spans)
        parts = {name: (one.X, *_labels(one, spans, plain)) for name, (one, spans) in found.items()}
        last, _ = [*found.values()][-1]
        extractor = extractor_of("audio", self.rate) if interface.is_sound else None
        rate = len(last.X) / last.length
        # Labels of a configuration mean the same everywhere, although none may have recurred yet.
        names = True if not plain and len(interface.labels) > 1 else None
        try:
            if plain:
                interface.boundary_label()  # without it, no prediction could be written
            data = labeled_rows(project, parts, last.columns).in_pieces(_MOST_CHANGES)
            model = model_of(data, extractor, rate, self.learner, names=names)
        except ValueError as error:  # for example if there is a single segment, and so no boundary
            return {"waiting": str(error)}
        with running.locked(self.state):
            content = self._content(project)
            content["version"] += 1
            model.save(self._model(project, content["version"]))
            self._write(project, content)
            # keep the previous model, which a prediction may be about to read
            self._model(project, content["version"] - 2).unlink(missing_ok=True)
        return {"model_version": str(content["version"]), "tasks": len(parts)}

    def predict(
        self,
        tasks: Sequence[Mapping[str, Any]],
        label_config: str,
        project: Any = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Predict the regions of every task, with scores and the version number of the model.

        The score of a region is the probability of the less certain of its two boundaries. With a
        consensus, the probability of a boundary is the fraction of models that agree on it. With a
        single model, the probability of a boundary is 1 − exp(−2m)/2. Here m is the score that the
        segmentation loses without this boundary, divided by the penalty. The score of a task is the
        mean probability of its boundaries. There are no regions if there is no model, or if a task
        cannot be read. In this case ``error`` gives the reason.
        """
        number = "" if project is None else str(project).partition(".")[0]
        interface = Interface.read(label_config)
        version = self._content(number)["version"]
        model = metriclearn.load(self._model(number, version)) if version else None
        answers = []
        for task in tasks:
            answer: dict[str, Any] = {"result": [], "score": 0.0, "model_version": str(version)}
            if model is not None:
                try:
                    given = self.task(task, interface, model.extractor)
                    answer |= _predicted(given, model, interface)
                except (ValueError, OSError, ImportError) as error:
                    answer["error"] = sentence(error)
                    _LOGGER.warning("No prediction: %s", answer["error"])
            answers.append(answer)
        return answers

    def version(self, project: Any) -> str:
        """Return the version number of the model of a project, or "0" if there is none."""
        return str(self._content(str(project).partition(".")[0])["version"])

    def task(self, task: Mapping[str, Any], interface: Interface, extractor: Any = None) -> Task:
        """Return the features of a task's file, or of the time series that the task holds itself.

        Features of sound are computed by ``extractor``. By default this is an extractor with the
        backend's rate.
        """
        name = recording_name(task, interface)
        if interface.is_sound:
            found: Any = file_of(datasets.recording_files(self.folder).values(), name)
        else:
            found = table_of(interface, self.folder, task, name)
        if found is None:
            raise FileNotFoundError(
                f"{str(self.folder)!r} has no file {name!r} of a task; start the backend with the "
                "folder that holds the files."
            )
        if interface.is_sound:
            extractor = extractor_of("audio", self.rate) if extractor is None else extractor
            X, rate = datasets.cached_features(found, extractor), extractor.rate
            columns = [str(column) for column in extractor.get_feature_names_out()]
            return Task(name, X, columns, (np.arange(len(X)) + 0.5) / rate, Clock(), len(X) / rate)
        columns = list(interface.channels)
        if missing := sorted(set(columns) - set(map(str, found.columns))):
            raise ValueError(f"{name!r} lacks the channels {missing[:5]} of the configuration.")
        clock = Clock.of(interface, found, self.rate, name)
        X = datasets.finite_values(found[columns], Path(name))
        times = np.arange(len(found)) / self.rate if clock.times is None else clock.times.seconds
        return Task(name, X, columns, times, clock, float(clock.length or len(found) / self.rate))

    def _model(self, project: str, version: int) -> Path:
        return self.state / f"project{project}.{version}.model"

    def _content(self, project: str) -> dict[str, Any]:
        path = self.state / f"project{project}.json"
        if path.is_file():
            with running.reading(path, "the annotations of a backend"):
                return json.loads(path.read_text("utf8"))
        return {"config": "", "version": 0, "tasks": {}}

    def _write(self, project: str, content: Mapping[str, Any]) -> None:
        with running.replacing(self.state / f"project{project}.json") as stream:
            stream.write(json.dumps(content, indent=1).encode())


def _project(data: Mapping[str, Any]) -> str:
    """Return the number of the project in a request. This number is part of the names of the
    project's files."""
    given = data.get("project")
    number = str(given.get("id") if isinstance(given, Mapping) else given).partition(".")[0]
    if not number.isdecimal():
        raise ValueError(f"A request needs the number of a project, got {str(given)[:80]!r}.")
    return number


def _many(given: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects in ``given``, which is a list or a single object."""
    listed = given if isinstance(given, list) else [given]
    return [one for one in listed if isinstance(one, Mapping)]


def _config(data: Mapping[str, Any]) -> str:
    given = data.get("project")
    return str(given.get("label_config") or "") if isinstance(given, Mapping) else ""


def _labels(
    one: Task, segments: Sequence[Segment], plain: bool
) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return the label of every row, and the first rows of regions that adjoin one of their label.

    A row at the end of a region belongs to this region, unless the next region begins there.
    ``plain`` means that no region of the project has a label.
    """
    names = ["segment" if plain else label for *_, label in segments]
    labels = np.full(len(one.X), UNKNOWN, dtype=f"U{max(map(len, [UNKNOWN, *names]))}")
    starts: list[int] = []
    reached, before = 0, UNKNOWN
    for (start, end, _), label in zip(segments, names):
        # times were written as text and have rounding errors
        first, stop = map(int, np.searchsorted(one.times, [start - 1e-6, end + 1e-6]))
        if label == before and 0 < first <= reached and first < stop:
            starts.append(first)
        labels[first:stop] = label
        reached, before = stop, label
    return labels, np.array(starts, dtype=np.int64)


def _predicted(one: Task, model: Segmenter, interface: Interface) -> dict[str, Any]:
    """Return the regions of the best segmentation with their scores, and the score of the task."""
    ends = model.predict_change_points(one.X)
    if model.learner_ is None:
        likely = model.boundary_shares(one.X, tolerance=int(model.rows_per_second / 2))
    else:
        losses = model.learner_.boundary_margins(one.X).losses
        likely = Calibration.uncalibrated(losses / max(model.learner_.penalty_, 1e-300))
    likely = np.minimum(likely, 1.0)
    probability = dict(zip(ends[:-1].tolist(), likely.tolist()))
    segments, scores = [], []
    for start, end, label in model.segments(one.X):
        rows = [round(time * model.rows_per_second) for time in (start, end)]
        if interface.is_sound:
            spans = [row / model.rows_per_second for row in rows]
        else:  # at the times of rows, which the page of Label Studio can show
            spans = [float(one.times[min(row, len(one.times) - 1)]) for row in rows]
        segments.append((spans[0], spans[1], label))
        scores.append(min(probability.get(row, 1.0) for row in rows))
    regions = regions_of(segments, interface, one.clock, scores)
    return {"result": regions, "score": float(np.mean(likely)) if len(likely) else 1.0}


class _JsonGuard(Guard):
    """Keeps web pages away: they send an Origin header, or cannot send JSON to another site.

    An Origin header is also sent by a page of a foreign domain name that points to this computer
    (DNS rebinding).
    """

    def checked(self, scope: Mapping[str, Any], headers: Mapping[str, list[str]]) -> Any:
        if scope["method"] == "POST":
            if "origin" in headers:
                raise Refusal(403, "Web pages may not use this backend.")
            if headers.get("content-type", [""])[-1].partition(";")[0] != "application/json":
                raise Refusal(415, "The content type needs to be application/json.")
        return scope


def application(backend: Backend) -> Any:
    """Make the ASGI application. Learning runs in a thread, one project after the other."""
    Route = optional("starlette.routing", "label").Route
    pool, waiting = ThreadPoolExecutor(1), set[str]()

    def learn(project: str) -> None:
        waiting.discard(project)  # annotations that arrive from now on are learned next time
        try:
            result = backend.learn(project)
        except Exception as error:  # the server continues
            result = {"waiting": str(error)}
        _LOGGER.info("Project %s: %s", project, result)

    def webhook(given: Mapping[str, Any]) -> Any:
        if not backend.keep(str(given.get("action")), given):
            return {"status": "Unknown event"}
        project = _project(given)
        if project not in waiting:
            waiting.add(project)
            pool.submit(learn, project)
        return answer({"status": "ok"}, 201)

    def setup(given: Mapping[str, Any]) -> dict[str, Any]:
        Interface.read(str(given.get("schema")))
        return {"model_version": backend.version(given.get("project"))}

    def predict(given: Mapping[str, Any]) -> dict[str, Any]:
        tasks, project = given.get("tasks") or [], _project(given)
        results = backend.predict(tasks, str(given.get("label_config")), project)
        return {"results": results, "model_version": backend.version(project)}

    def endpoint(function: Callable[[Mapping[str, Any]], Any]) -> Any:
        def called(body: bytes) -> Any:
            given = json.loads(body)
            if not isinstance(given, Mapping):
                raise ValueError("A request needs to be a JSON object.")
            return function(given)

        async def asked(request: Any) -> Any:
            return await answered(called, await request.body())

        return asked

    async def health(request: Any) -> Any:
        return answer({"status": "UP", "model_class": "metriclearn"})

    posts = {"/setup": setup, "/predict": predict, "/webhook": webhook}
    routes = [Route(path, endpoint(one), methods=["POST"]) for path, one in posts.items()]
    routes += [Route("/", health), Route("/health", health)]
    starlette = optional("starlette.applications", "label").Starlette(routes=routes)
    return _JsonGuard(starlette, _LARGEST_BODY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Connect metriclearn with Label Studio.

    examples:
      python -m metriclearn.apps.label_studio serve recordings
      python -m metriclearn.apps.label_studio read export.json --out recordings/segments.csv
      python -m metriclearn.apps.label_studio write new.segments.csv --config config.xml \\
          --out tasks.json
    """
    commands = (serve, read, write)
    return run_program("label_studio", main, commands, metriclearn.__version__, arguments)


Config = Annotated[Path | None, "labeling configuration (XML); time series need it", "XML"]
Tables = Annotated[Path | None, "folder of the tables of time series", "FOLDER"]
Rate = Annotated[float | None, "rows per second of sound (4), and of tables without times"]


def serve(
    folder: Annotated[Path, "folder with the recordings or tables of the tasks"],
    *,
    rate: Rate = None,
    host: Annotated[str, "address to listen on; other machines need 0.0.0.0"] = "127.0.0.1",
    port: Annotated[int, "port (default 9090)"] = 9090,
    consensus: Annotated[bool, "learn many models that vote, in minutes"] = False,
) -> None:
    """answer Label Studio, and learn from submitted annotations

    In the settings of a project of Label Studio, under Model, connect http://localhost:9090. Label
    Studio then sends every annotation that is submitted, and asks for predictions.
    """
    learner = Segmenter() if consensus else None
    backend = Backend(folder, rate=rate or 4.0, learner=learner)
    logging.basicConfig(format="%(message)s")
    _LOGGER.setLevel(logging.INFO)  # not the solvers
    uvicorn = optional("uvicorn", "label")
    with bound("label_studio serve", host, port) as listening, suppress(KeyboardInterrupt):
        print(f"http://{host}:{port} answers Label Studio. Ctrl-C stops it.", flush=True)
        settings = uvicorn.Config(application(backend), log_level="warning")
        uvicorn.Server(settings).run([listening])


def read(
    export: Annotated[Path, "tasks that Label Studio exported as JSON", "EXPORT.json"],
    *,
    out: Annotated[Path, "table of segments to write", "CSV"],
    config: Config = None,
    folder: Tables = None,
    rate: Rate = None,
    annotator: Annotated[str | None, "number or e-mail address of the annotator"] = None,
) -> None:
    """read an export into a table of segments"""
    text = None if config is None else config.read_text("utf8")
    tables = read_tasks(export, text, folder=folder, rate=rate or 1.0, annotator=annotator)
    if not tables:
        raise ValueError(
            f"{str(export)!r} holds no regions{f' of annotator {annotator}' if annotator else ''}; "
            "export annotated tasks from Label Studio as JSON."
        )
    datasets.save_segments(tables, out)
    print(f"{out}: {sum(map(len, tables.values()))} segments of {len(tables)} recordings")


def write(
    segments: Annotated[Path, "table of segments, or file of another program", "SEGMENTS"],
    *,
    config: Annotated[Path, "labeling configuration (XML)", "XML"],
    out: Annotated[Path, "file to write, for Label Studio's import", "JSON"],
    folder: Tables = None,
    rate: Rate = None,
    predictions: Annotated[bool, "write predictions in place of annotations"] = False,
) -> None:
    """write segments as tasks"""
    tasks = write_tasks(
        datasets.read_labels(segments),
        config.read_text("utf8"),
        folder=folder,
        rate=rate or 1.0,
        predictions=predictions,
    )
    with running.replacing(out) as stream:
        stream.write(json.dumps(tasks, indent=1).encode())
    print(f"{out}: {len(tasks)} tasks")
