"""Read audio and video files as streams, in constant memory.

soundfile reads the sound of Wave, FLAC, Ogg and MP3 files, and soxr resamples it. PyAV reads all
other formats (MP4, MKV, AAC …), and all pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".wma")
VIDEO_SUFFIXES = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".mpg", ".mpeg", ".m4v", ".ts")

PathLike = str | os.PathLike[str]
_LOWEST_RATE = 16  # samples per second
_SAMPLES = (1, 3, 0xFFFE)  # Wave formats that store each sample on its own
_MISCOUNTED = 64  # bytes by which the length in a header may be wrong


def audio_blocks(
    path: PathLike, sampling_rate: int = 16000, seconds: float = 20.0
) -> Iterator[NDArray[np.float32]]:
    """Yield the sound of a file, averaged over channels and resampled, in blocks of ``seconds``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is empty or damaged, has no sound, or has samples that are not finite.
    """
    checked = _existing(path)
    n_samples, soundfile = 0, optional("soundfile", "audio")
    read = _soundfile_blocks
    try:
        soundfile.info(os.fspath(path))
    except soundfile.LibsndfileError:  # an unknown format
        read = _av_blocks
    with reading(path, "sound", RuntimeError, *_errors_of_av()):
        for block in read(checked, sampling_rate, seconds):
            if not np.isfinite(block).all():
                raise ValueError(
                    f"{os.fspath(path)!r} needs finite samples, got NaN or infinity near second "
                    f"{n_samples / sampling_rate:.1f}; export the sound again."
                )
            n_samples += len(block)
            if len(block):
                yield block
    if n_samples == 0:
        raise ValueError(f"{os.fspath(path)!r} has no sound (0 samples); record it again.")


def video_frames(
    path: PathLike, rate: float = 1.0, size: tuple[int, int] = (128, 128)
) -> Iterator[NDArray[np.uint8]]:
    """Yield the picture on screen at each time (t + ½)/rate, as an RGB array (height, width, 3).

    Pictures are chosen by time stamps, so files may have a variable frame rate. A video shorter
    than ½/rate seconds gives its last picture. All frames are decoded, but only chosen ones are
    scaled.

    Parameters
    ----------
    rate : float
        Pictures per second.
    size : (int, int)
        Height and width to which every picture is scaled.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is empty or damaged, or holds no pictures.
    """
    checked, current, now, given = _existing(path), None, 0.0, 0
    av = optional("av", "video")
    with reading(path, "video", *_errors_of_av()), av.open(os.fspath(checked)) as container:
        if not container.streams.video:
            raise ValueError(
                f"{os.fspath(path)!r} has no video track; use its sound alone (AudioFeatures, "
                "--features audio)."
            )
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        step = length = float(1 / stream.average_rate) if stream.average_rate else 0.04
        for frame in chain(container.decode(stream), [None]):
            if frame is None:  # the end of the last picture
                now += length
            else:
                now = frame.time if frame.time is not None else now + step
            if current is None:
                start = now
            else:
                # middles (t + ½) / rate of steps before now
                due = int(np.ceil((now - start) * rate - 0.5 - 1e-9))
                if (due := max(due, frame is None)) > given:
                    shape = {"width": size[1], "height": size[0], "interpolation": "AREA"}
                    yield from repeat(current.to_ndarray(format="rgb24", **shape), due - given)
                    given = due
            if frame is not None:
                length = float(frame.duration * stream.time_base) if frame.duration else step
                current = frame
    if current is None:
        raise ValueError(f"{os.fspath(path)!r} has no pictures (0 frames); record it again.")


def duration(path: PathLike) -> float:
    """Return the length of a recording in seconds from its header, or 0 if the header has none.

    Raises
    ------
    FileNotFoundError, ValueError
        As in :func:`audio_blocks`.
    """
    name = os.fspath(_existing(path))
    with suppress(ImportError, RuntimeError):
        import soundfile

        return float(soundfile.info(name).duration)
    av = optional("av", "video")
    with reading(path, "a recording", *_errors_of_av()), av.open(name) as container:
        return (container.duration or 0) / 1e6


def _existing(path: PathLike) -> Path:
    """Refuse a Wave or AIFF file that is shorter than its header says, or no sound by its header.

    libsndfile would read a short file without an error, and resample a few samples to gigabytes.
    """
    checked = Path(path)
    if not checked.is_file():
        raise FileNotFoundError(f"{os.fspath(path)!r} is not an existing file; check the name.")
    if not (size := checked.stat().st_size):
        raise ValueError(f"{os.fspath(path)!r} is empty (0 bytes); copy or record it again.")
    with checked.open("rb") as file:
        start = file.read(12)
        order: Any = {b"RIFF": "little", b"RIFX": "big", b"FORM": "big"}.get(start[:4])
        if order is None or start[8:] not in (b"WAVE", b"AIFF", b"AIFC"):
            return checked
        while len(chunk := file.read(8)) == 8:
            written, here = int.from_bytes(chunk[4:], order), size - file.tell()
            if chunk[:4] == b"fmt ":
                form = file.read(16)
                rate, bits = int.from_bytes(form[4:8], order), int.from_bytes(form[14:16], order)
                file.seek(-len(form), os.SEEK_CUR)
                coded = int.from_bytes(form[:2], order) not in _SAMPLES
                if rate < _LOWEST_RATE or not (coded or bits):
                    raise ValueError(
                        f"{os.fspath(path)!r} has {rate} samples a second of {bits} bits by its "
                        f"header, and sound needs at least {_LOWEST_RATE} samples of 1 bit; export "
                        "it again."
                    )
            if chunk[:4] in (b"data", b"SSND"):
                # programs that write to a pipe leave 0, 0x7FFF… or 0xFFFF… there
                if here + _MISCOUNTED < written and written >> 16 not in (0x7FFF, 0xFFFF):
                    raise ValueError(
                        f"{os.fspath(path)!r} is truncated to {here} of {written} bytes of sound; "
                        "copy it again."
                    )
                return checked
            file.seek(written + written % 2, os.SEEK_CUR)
    return checked


def _errors_of_av() -> tuple[type[Exception], ...]:
    """Return the base of PyAV's errors, if PyAV is installed."""
    with suppress(ImportError):
        from av.error import FFmpegError

        return (FFmpegError,)
    return ()


def _soundfile_blocks(
    path: Path, sampling_rate: int, seconds: float
) -> Iterator[NDArray[np.float32]]:
    soundfile, soxr = optional("soundfile", "audio"), optional("soxr", "audio")
    with soundfile.SoundFile(os.fspath(path)) as file:
        size = max(1, int(seconds * file.samplerate))
        resampler = soxr.ResampleStream(file.samplerate, sampling_rate, 1, dtype="float32")
        read = 0
        for block in file.blocks(blocksize=size, dtype="float32", always_2d=True):
            read += len(block)
            mono = block.mean(axis=1)
            yield mono if file.samplerate == sampling_rate else resampler.resample_chunk(mono)
        if read < file.frames and file.format != "MP3":  # the MP3 header only estimates
            raise ValueError(
                f"{os.fspath(path)!r} is truncated to {read} of {file.frames} samples; copy it."
            )
        if file.samplerate != sampling_rate:
            yield resampler.resample_chunk(np.zeros(0, dtype=np.float32), last=True)


def _av_blocks(path: Path, sampling_rate: int, seconds: float) -> Iterator[NDArray[np.float32]]:
    av = optional("av", "video")
    with av.open(os.fspath(path)) as container:
        if not container.streams.audio:
            raise ValueError(
                f"{os.fspath(path)!r} has no audio track; use its pictures alone (VideoFeatures, "
                "--features video)."
            )
        resampler = av.AudioResampler(format="flt", layout="mono", rate=sampling_rate)
        waiting: list[NDArray[np.float32]] = []
        for frame in container.decode(audio=0):
            waiting += [part.to_ndarray()[0] for part in resampler.resample(frame)]
            if sum(map(len, waiting)) >= seconds * sampling_rate:
                yield np.concatenate(waiting)
                waiting = []
        waiting += [part.to_ndarray()[0] for part in resampler.resample(None)]
        if waiting:
            yield np.concatenate(waiting)
