"""Load a data set by its name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metriclearn.datasets.registry import SOURCES, PathLike


def load_dataset(name: str, root: PathLike | None = None, **options: Any) -> Any:
    """Load a public data set by its name.

    Files are read from a folder, see :func:`data_folder`. If files are missing there, they are
    downloaded and checked, or an error explains where to get them and how to lay them out.
    ``datasets/sources.toml`` lists addresses, layouts and known licenses. A segment is a run of
    equal labels. Unless the table names the labels, they are segment numbers 0 … K−1 in order of
    time. A group is never divided between training and test data.

    =================== ======================================================= ===================
    name                content, with a row per …, and source                   groups
    =================== ======================================================= ===================
    hapt                activities of people with a phone at the waist, window  people
                        (Reyes-Ortiz et al., Neurocomputing 171, 2016)
    chest_accelerometer activities of people, labeled, second                   people
                        (Casale et al., Personal Ubiquitous Comp. 16, 2012)
    skab                a water pump, labeled normal or fault, second           experiments and
                        (Katser & Kozitsin, Skoltech Anomaly Benchmark, 2020)   days
    gesture_phase       gestures of people who tell a story, labeled by phase,  people
                        frame (Madeo et al., ACM SAC 2013)
    mocap6              exercises in motion capture, labeled, .1 s              recordings
                        (Fox et al., Annals of Applied Statistics 8(3), 2014)
    beedance            tracks of dancing bees, frame (Oh et al., IJCV 77,      bees
                        2008)
    gazecom             eyes of people who watch films: fixation, saccade,      people
                        pursuit or noise, 20 ms (Dorr et al., Journal of Vision
                        10(10), 2010; Startsev et al., Behavior Research
                        Methods 51, 2019)
    birdsong            bouts of song of one bird, labeled by note, 4 ms        bouts
                        (Koumura & Okanoya, PLoS ONE 11(7), 2016)
    billboard           chart songs, labeled by section, .5 s (Burgoyne et al., songs
                        ISMIR 2011)
    piano_keys          Mozart's piano sonatas, labeled by local key, quarter   movements
                        note (Hentschel et al., TISMIR 4(1), 2021)
    texts               texts joined from excerpts, sentence (Choi, NAACL 2000) documents
    tssb                joined series (Schäfer et al., ClaSP, CIKM 2021)        series
    utsa                recordings such as ECG (Gharghabi et al., Data Mining   series
                        and Knowledge Discovery 33, 2019)
    jamendo_singing     songs, labeled singing or instrumental (Durand et al.,  songs
                        ICASSP 2023)
    ami_turns           meetings, labeled by speaker (Carletta et al., 2005)    sets of speakers
    musanmix            a recording of music, noise and speech, labeled by      recordings
                        inaSpeechSegmenter (Doukhan et al., ICASSP 2018)
    speech_segments     people who speak (Giannakopoulos, PLOS ONE 10, 2015)    recordings
    iris, wine, digits, tables that come with scikit-learn (Fisher 1936; Forina
    breast_cancer       et al. 1991; Alpaydin & Kaynak 1998; Wolberg et al.
                        1995)
    letter              16 features of distorted capital letters (Frey & Slate
                        1991)
    libras              curves of hand movements (Dias et al. 2009)
    weizmann_horses     photographs of horses, labeled figure or ground
                        (Borenstein & Ullman, ECCV 2002)
    bsds500             natural images, divided by 5 to 7 people each
                        (Arbelaez et al., PAMI 33(5), 2011)
    neuroblastoma       copy-number profiles with annotated regions (Hocking et profiles
                        al., Bioinformatics 30(11), 2014)
    tcpd                series whose change-points five people have marked (van
                        den Burg & Williams, arXiv:2003.06222)
    penalties           features and label errors to learn penalties from
                        (Rigaill et al., ICML 2013; Hocking et al.,
                        Bioinformatics 33(4), 2017)
    =================== ======================================================= ===================

    Parameters
    ----------
    name : str
        A name in the table.
    root : path, optional
        Folder of the files; see :func:`data_folder`.
    **options
        Options of the data set, in the list below.

    Returns
    -------
    LabeledSequences, LabeledTable, LabeledImages, AnnotatedProfiles, list or tuple
        LabeledSequences for data sets with groups, except neuroblastoma (AnnotatedProfiles).
        LabeledTable for iris to libras, LabeledImages for horses and bsds500. A list of
        AnnotatedSeries for tcpd. For penalties, PenaltyTargets and the official test fold of each
        of the N sequences, (N,), numbered from 1.

    Raises
    ------
    ValueError
        If the name, an option or its value is unknown, or files are damaged or do not fit together.
    FileNotFoundError, ConnectionError
        If files are missing and cannot be downloaded; the message explains how to get them.

    See Also
    --------
    load_example : small data sets that come with the package.
    load_files : reads your files.

    Notes
    -----
    Options of **hapt** (50 Hz; acceleration in g, angular velocity in rad/s):

    * ``window`` (25): samples of a window, at least 2. Windows do not overlap. A window belongs to
      the segment, or to the unlabeled gap, that contains most of its samples.
    * ``features`` ("basic"): ``"basic"`` computes six features of each of the six channels, such as
      ``acc_x_mean``: the mean, the sd, the mean absolute difference of neighboring samples, and the
      natural logarithms of .001 plus the sd (``log_sd``) and plus the root mean square of the
      frequencies up to 5 Hz (``log_low_band``) and above (``log_high_band``). ``"extended"`` adds
      minimum, maximum, median and slope (per sample), and the norms of acceleration and of angular
      velocity as channels: 80 features. ``"raw"`` gives the samples, such as ``acc_x_0``.
      ``"both"`` gives the raw features, then the basic ones.
    * ``unlabeled`` ("drop"): ``"drop"`` removes the windows of gaps and joins the rest, ``"keep"``
      makes every gap a segment, ``"unknown"`` labels these windows −1, so labels are partial.
    * ``labels`` ("segments"): ``"segments"`` numbers the segments. ``"activities"`` uses numbers of
      activities: 1 walking, 2 upstairs, 3 downstairs, 4 sitting, 5 standing, 6 laying, 7 to 12
      transitions, 0 a gap that is kept.

    Options of **gesture_phase**:

    * ``features`` ("va3"): ``"va3"`` gives 32 velocities and accelerations of hands and wrists, as
      published. ``"raw"`` gives 18 positions of hands, wrists, head and spine, in about metres.
      ``"both"`` gives all. With ``"va3"`` or ``"both"``, sequences start at frame 4.
    * ``derived`` (False): adds 28 features that are computed from the positions: places of hands
      and wrists relative to spine and head, and how far each moved since the last frame.
    * ``group`` ("user"): videos of a "user", of a "story", or each "video" alone.

    Options of **beedance** and **mocap6**:

    * ``derived`` (True): adds features that are computed over a centered window. For bees these are
      the logarithms of the mean step and of the root mean square change of this step of each
      channel, mean and log root mean square deviation of the heading from its median, and turn
      (radians per frame) and log speed of the smoothed path. For exercises these are the mean and
      the logarithm of the standard deviation of each channel.
    * ``window`` (15): rows of that window, an odd number.

    Option of **gazecom** (5; samples at 250 Hz) and of all others whose recordings are arrays (1):

    * ``step``: stored rows that are averaged to one row, which has the label of its middle. An
      incomplete last row is dropped.

    Features of **gazecom** are the logarithm of the displacement (degrees), the displacement by the
    length of the path, and the logarithm of the standard deviation over 16, 48 and 160 ms, and the
    confidence of the tracker. Those of **birdsong** are decibels in 32 mel bands from 500 to 12,000
    Hz, and their changes over 16 ms. Those of **billboard** are roots of 24 chroma values over 2
    and 16 s, and for both the largest similarity to a row at least 8 s earlier. Those of
    **piano_keys** are roots of fractions of time of the pitch classes over 2, 8 and 32 quarters.

    Options of **texts**. Every excerpt is in one document only, the first that has it; documents
    with fewer than three excerpts are left out.

    * ``fitted`` (all): names of the documents to which vocabulary, weights and SVD are fitted.
    * ``n_components`` (40): dimensions of the SVD.
    * ``held_out`` (0): this fraction of the excerpts is used only in further documents, named
      ``held out …``. Each of them is in the group of the document with which it shares most.
    * ``fitted_root`` (``root``): folder with the file that holds the documents ``fitted``.

    Options of **penalties**: ``set`` ("systematic"), a set of the files such as "detailed", and
    ``folds``, by default "sequenceID" for copy numbers and "equal_labels" for ChIP-seq sets.

    Options of **tcpd**: ``names`` of the series, in this order, and ``base_url`` of a mirror.

    Options of the data sets of sound (jamendo_singing to speech_segments): ``extractor``, such as
    ``AudioFeatures(rate=2)``, is needed; ``segments``, ``recordings``, ``gap``, ``groups`` and
    ``cache`` are passed to :func:`load_recordings`.

    Examples
    --------
    >>> from metriclearn.datasets import load_dataset
    >>> load_dataset("wine").X.shape
    (178, 13)
    >>> data = load_dataset("hapt", window=50)  # doctest: +SKIP
    >>> train, test = data.split_by_group(n_test=6, random_state=0)  # doctest: +SKIP
    """
    source = SOURCES.get(name)
    if source is None:
        raise ValueError(f"load_dataset needs a name of {sorted(SOURCES)}, got {name!r}.")
    if unknown := sorted({*options} - {*source.options}):
        raise ValueError(
            f"load_dataset({name!r}) has the options {['root', *source.options]}, got {unknown}."
        )
    if "extractor" in source.options and "extractor" not in options:
        raise ValueError(
            f"load_dataset({name!r}) needs an extractor of features, such as "
            "extractor=AudioFeatures()."
        )
    module, _, function = source.reader.partition(".")
    reader = getattr(import_module(f"{__package__}.{module}"), function)
    return reader(name, root, **{**source.settings, **options})
