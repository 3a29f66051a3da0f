"""Views: rows → rows. The protocol, and bases of views and of transformers that learn nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from metriclearn.problem.partition import numbered
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Needs, check_changed, check_parameters
from metriclearn.running.values import dimensions, real_array, shown, sort_of

if TYPE_CHECKING:
    from metriclearn.views.gaps import Labels

SEQUENCES = Needs(
    "a list {name} of sequences", lambda X: not isinstance(X, (str, bytes)) and len(X) >= 0
)


class StatelessTransformer(  # type: ignore[call-arg]
    TransformerMixin, ComponentParameters, auto_wrap_output_keys=None
):
    """A transformer that learns nothing: ``transform`` works without ``fit``."""

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. Nothing is learned."""
        check_parameters(self)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        return tags


class View(Protocol):
    """Turns rows into rows. ``X`` is a list of recordings, (T_i, P) arrays.

    A view may have four flags. ``missing``: it reads recordings with NaN. ``keeps_all``: it keeps
    all rows. ``running``: its rows are running sums. ``held_out``: training rows must come from a
    view fitted without the group of the recording. A view that leaves rows out also has
    ``kept(X)``, the numbers of the rows that it keeps. A linear view has ``matrix_``, the matrix W
    of its rows X Wᵀ. A view of single recordings may have ``rows_key`` after its fit: fitted views
    with equal keys give a recording equal rows, and chains that begin with them compute these once.

    See Also
    --------
    PlainView : the base of views.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import OwnScale, View
    >>> view: View = OwnScale()
    >>> view.fit_transform([np.array([[0.0], [2.0]])])[0].tolist()
    [[-1.0], [1.0]]
    """

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and after a row the view reads to compute it.

        None means that a row depends on the whole recording.
        """
        ...

    def fit(self, X: Any, y: Labels | None = None, groups: ArrayLike | None = None) -> Self:
        """Learn from the training recordings."""
        ...

    def transform(self, X: Any) -> Any:
        """Compute the rows of recordings that are new to the view."""
        ...

    def fit_transform(
        self, X: Any, y: Labels | None = None, groups: ArrayLike | None = None
    ) -> Any:
        """Fit the view, and compute the rows of the training recordings.

        A view that is fitted to labels computes them with models that have not seen the group of
        the recording.
        """
        ...


class _Tables(TransformerMixin):
    """Base of transformers whose ``set_output`` acts on single tables, not on lists of them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)  # scikit-learn wraps the methods of the class itself
        if options.get("auto_wrap_output_keys", "all") is None:
            return
        for name in {"transform", "fit_transform"} & cls.__dict__.keys():
            setattr(cls, name, _tables_alone(cls.__dict__[name]))


def _tables_alone(method: Any) -> Any:
    plain = method.__wrapped__

    @wraps(plain)
    def called(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        return (method if is_one(X) else plain)(self, X, *given, **named)

    return called


class PlainView(_Tables, ComponentParameters, ABC):
    """Base of views: reads recordings, and computes the rows of each by :meth:`rows`.

    All methods take a list of recordings, or a single (T, P) array or data frame. In a list, a (T,)
    array is a signal with one feature. For a single one, ``transform`` returns a single array. A
    subclass defines :meth:`rows`, and :attr:`reach` unless it is (0, 0). A view that learns also
    defines ``fit``, which calls :meth:`begin` first. If its rows would know the labels of training
    recordings, it sets ``held_out`` and defines ``fit_transform``, too.

    See Also
    --------
    View : the protocol.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import PlainView
    >>> class Squares(PlainView):
    ...     def rows(self, X):
    ...         return X**2
    >>> Squares().fit_transform([np.array([[1.0], [3.0]])])[0].tolist()
    [[1.0], [9.0]]
    """

    # Whether recordings may contain NaN.
    missing: ClassVar[bool] = False
    # Whether there is a row for every row of a recording; otherwise the view has ``kept``.
    keeps_all: ClassVar[bool] = True
    # Whether rows are sums over all rows so far; ``reach`` is then the reach of their increases.
    running: ClassVar[bool] = False
    # Whether training rows must come from a view fitted without the group of the recording.
    held_out: ClassVar[bool] = False
    n_features_in_: int

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and after a row the view reads; None: the whole recording."""
        return 0, 0

    @abstractmethod
    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording (T, P)."""

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Check the parameters, and remember the number and the names of the columns."""
        self.begin(X)
        return self

    def transform(self, X: Any) -> Any:
        """Compute the rows of every recording. Recordings need the columns that ``fit`` saw."""
        if not hasattr(self, "n_features_in_"):
            check_is_fitted(self)
        given = self.read(X)
        found = list(map(self.rows, given))
        new = [np.array(b) if np.may_share_memory(a, b) else b for a, b in zip(given, found)]
        return new[0] if is_one(X) else new

    def fit_transform(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Any:
        """Fit the view, and compute the rows of the training recordings."""
        return self.fit(X, y, groups).transform(X)

    def begin(self, X: Any) -> list[NDArray[np.float64]]:
        """Check the parameters, remember the columns, and return the recordings."""
        check_parameters(self)
        return self.read(X, fitting=True)

    def read(self, X: Any, *, fitting: bool = False) -> list[NDArray[np.float64]]:
        """Return the recordings as arrays of the same columns. Raises ValueError for others."""
        check_changed(self)
        who, one = type(self).__name__, is_one(X)
        tables = [X] if one else list(X)
        if not tables:
            raise ValueError(f"{who} needs a list of (T, P) arrays, got an empty list.")
        allow = ("missing",) if self.missing else ()
        arrays = []
        for i, table in enumerate(tables):
            place = "X" if one else f"recording {i}"
            if not one and dimensions(table) == 1:
                table = np.reshape(table, (-1, 1))
            arrays.append(array := real_array(who, place, table, allow=allow))
            named = hasattr(table, "columns") or hasattr(self, "feature_names_in_")
            if fitting or named or array.shape[1] != getattr(self, "n_features_in_", None):
                validate_data(self, table, reset=fitting and i == 0, skip_check_array=True)
        return arrays

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing
        return tags


class FittedViews:
    """The views that were fitted to some recordings. Equal views are fitted once.

    All learners that take part have the same recordings, labels and groups. Two views are equal if
    they have the same class and the same parameters.
    """

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Any, list[Any]]] = {}
        self._locks: defaultdict[Any, Lock] = defaultdict(Lock)

    def fit(
        self, view: Any, X: list[NDArray], y: Labels | None, groups: Any, behind: Any = None
    ) -> tuple[Any, list[Any]]:
        """Fit a copy of a view unless an equal one has been fitted, behind the same other view.

        Returns the fitted view, and its rows of the recordings.
        """
        try:
            key = joblib.hash(view), behind
        except Exception:  # foreign parts of a view fail in many ways
            key = object(), behind
        with self._locks[key]:
            if key not in self._found:
                self._found[key] = fit_view(view, X, y, groups)
        return self._found[key]


def fit_view(view: Any, X: list[NDArray], y: Labels | None, groups: Any) -> tuple[Any, list[Any]]:
    """Fit a copy of a view. Returns the copy, and its rows of the training recordings."""
    fitted = clone(view)
    return fitted, fitted.fit_transform(X, y, groups)


def says(view: Any, what: str) -> bool:
    """Return what a view says of itself, or what :class:`PlainView` says if it does not."""
    return bool(getattr(view, what, getattr(PlainView, what)))


def reads_missing(view: Any) -> bool:
    """Tell whether recordings may contain NaN behind a view, which may be None."""
    return view is not None and says(view, "missing")


def leaves_out(view: Any) -> bool:
    """Tell whether a view leaves rows out; it may be None."""
    return view is not None and not says(view, "keeps_all")


def widest(reaches: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return the largest reaches before and after a row; None if one is the whole recording."""
    known = [one for one in reaches if one is not None]
    if len(known) < len(reaches):
        return None
    back, ahead = np.max([(0, 0), *known], axis=0).tolist()
    return back, ahead


def rows_of(view: Any, X: NDArray, seen: dict[Any, NDArray] | None = None) -> NDArray:
    """Compute the rows that a fitted view gives for a recording; without a view, its own rows.

    ``seen`` keeps the rows by view, so that scores that share a view compute them once. It must be
    of this recording alone.
    """
    if view is None:
        return X
    if seen is None:
        return view.transform([X])[0]
    if view not in seen:
        seen[view] = view.transform([X], **sharing(view, seen))[0]
    return seen[view]


def sharing(view: Any, known: dict[Any, NDArray]) -> dict[str, Any]:
    """Return the option by which a view shares rows with other views, if it has it."""
    return {"known": known} if getattr(view, "shares_rows", False) else {}


def read_groups(who: str, groups: Any, n: int, fewest: int = 2) -> NDArray[np.int64]:
    """Number the groups of ``n`` sequences, (n,). By default each sequence is a group.

    Raises ValueError if there are fewer than ``fewest`` groups.
    """
    units = np.arange(n)
    if groups is not None:
        try:
            units = numbered(groups)
        except ValueError as error:
            raise ValueError(
                f"{who} needs groups=[…] with a name or a number for each of {n} sequence(s), none "
                f"of them missing, got {shown(groups)}."
            ) from error
    if np.shape(units) != (n,) or units.max() < fewest - 1:
        several = " in two groups and more" * (fewest > 1)
        raise ValueError(
            f"{who} needs a list of sequences{several}, one group for each, got {n} sequence(s) "
            f"and groups={shown(groups)}."
        )
    return units


def is_one(X: Any) -> bool:
    """Return whether X is a single table, and not a list of recordings or a (N, T, P) array."""
    return sort_of(X) == "one"
