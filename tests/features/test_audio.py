"""Audio features: against librosa on the whole signal, streaming, and files that are not well."""

from pathlib import Path

import numpy as np
import pytest

from tests.features.sounds import RATE, melody, reference, write_wave

pytest.importorskip("librosa")
soundfile = pytest.importorskip("soundfile")

from metriclearn.features.media.audio import AudioFeatures  # noqa: E402
from metriclearn.features.media.decoding import audio_blocks, duration  # noqa: E402

EVERYTHING = {"deltas": 2, "flatness": True, "contrast": True, "chroma": True}


def test_equals_librosa_on_the_whole_signal() -> None:
    signal, librosa = melody(5.3), reference()
    found = AudioFeatures(2.0, deltas=1).extract_signal(signal)
    power = np.abs(librosa.stft(signal, n_fft=1024, hop_length=512, pad_mode="constant")) ** 2
    power = power[:, : -(-len(signal) // 512)]  # frames centered inside the signal
    mel = librosa.feature.melspectrogram(S=power, sr=RATE, n_mels=40)
    mfcc = librosa.feature.mfcc(S=librosa.power_to_db(mel, top_db=None), n_mfcc=13)
    energy = librosa.power_to_db(power.mean(axis=0)[None], top_db=None)
    static = np.vstack([mfcc, energy]).astype(np.float64)
    frames = np.vstack([static, librosa.feature.delta(static, mode="nearest")])
    rows = (np.arange(frames.shape[1]) * 512 / RATE * 2.0).astype(int)
    expected = [
        np.concatenate([frames[:, rows == t].mean(axis=1), frames[:, rows == t].std(axis=1)])
        for t in range(rows[-1] + 1)
    ]
    assert found.shape == (11, 56)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("seconds", [0.013, 0.4, 1.7, 30.0])
def test_blocks_do_not_change_the_result(tmp_path: Path, seconds: float) -> None:
    path = write_wave(tmp_path / "a.wav", melody(7.9))
    features = AudioFeatures(3.0, **EVERYTHING)
    whole = features.extract(path, 100.0)
    # single precision: other sizes of matrix products round in another way
    np.testing.assert_allclose(features.extract(path, seconds), whole, rtol=1e-4, atol=1e-4)
    assert whole.shape == (24, len(features.get_feature_names_out()))


def test_energy_and_flatness_of_known_signals() -> None:
    features = AudioFeatures(1.0, n_mfcc=1, deltas=0, flatness=True, deviation=False)
    names = features.get_feature_names_out().tolist()
    time = np.arange(4 * RATE) / RATE
    tone = 0.1 * np.sin(2 * np.pi * 1000 * time)
    noise = np.random.default_rng(0).normal(size=4 * RATE)
    louder = features.extract_signal(10 * tone)[:, names.index("energy_mean")]
    quiet = features.extract_signal(tone)
    np.testing.assert_allclose(louder[1:3] - quiet[1:3, names.index("energy_mean")], 20, atol=0.01)
    flat = names.index("flatness_mean")
    assert features.extract_signal(noise)[1, flat] > -4 > -30 > quiet[1, flat]


def test_resampled_stereo_is_the_mean_of_its_channels(tmp_path: Path) -> None:
    time = np.arange(3 * 44100) / 44100
    left = 0.4 * np.sin(2 * np.pi * 500 * time)
    stereo = np.stack([left, 0.5 * left], axis=1)
    path = write_wave(tmp_path / "s.wav", stereo, 44100)
    heard = np.concatenate(list(audio_blocks(path, RATE, 0.5)))
    expected = 0.3 * np.sin(2 * np.pi * 500 * np.arange(3 * RATE) / RATE)
    assert abs(len(heard) - 3 * RATE) <= 2
    np.testing.assert_allclose(heard[500:-500], expected[500 : len(heard) - 500], atol=1e-3)
    assert duration(path) == pytest.approx(3.0)


def test_silence_and_a_single_sample_are_finite(tmp_path: Path) -> None:
    features = AudioFeatures(1.0, **EVERYTHING)
    silent = features.extract(write_wave(tmp_path / "z.wav", np.zeros(3 * RATE)))
    assert silent.shape[0] == 3
    assert np.isfinite(silent).all()
    spread = [i for i, name in enumerate(features.get_feature_names_out()) if name.endswith("_sd")]
    assert np.abs(silent[:, spread]).max() < 1e-6
    short = features.extract(write_wave(tmp_path / "one.wav", np.array([0.5])))
    assert short.shape[0] == 1
    assert np.isfinite(short).all()


CUT = ("cut.wav", "cut.aiff", "brief.wav", "big.wav")


def test_files_that_are_not_well_give_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "junk.wav").write_bytes(b"no sound at all" * 100)
    write_wave(tmp_path / "none.wav", np.zeros(0))
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), RATE, subtype="FLOAT")
    for name in ("cut.flac", "cut.wav", "cut.aiff"):
        cut = write_wave(tmp_path / name, melody(4.0))
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    brief = write_wave(tmp_path / "brief.wav", melody(0.1))
    brief.write_bytes(brief.read_bytes()[:-200])
    soundfile.write(tmp_path / "big.wav", melody(4.0), RATE, endian="BIG")
    (tmp_path / "big.wav").write_bytes((tmp_path / "big.wav").read_bytes()[:20000])
    for name, error, sentence in (
        ("empty.wav", ValueError, r"empty\.wav' is empty"),
        ("junk.wav", ValueError, r"junk\.wav' cannot be read"),
        ("none.wav", ValueError, r"none\.wav' has no sound"),
        ("nan.wav", ValueError, "finite samples"),
        ("cut.flac", ValueError, r"cut\.flac"),
        *((name, ValueError, f"{name}' is truncated to") for name in CUT),
        ("missing.wav", FileNotFoundError, "is not an existing file"),
    ):
        with pytest.raises(error, match=sentence):
            AudioFeatures().extract(tmp_path / name)


@pytest.mark.parametrize("written", [0, 2**31 - 1, 2**32 - 1])
def test_sound_written_to_a_pipe_has_no_size_in_its_header(written: int, tmp_path: Path) -> None:
    path = write_wave(tmp_path / "a.wav", melody(1.0))
    expected, content = AudioFeatures().extract(path), path.read_bytes()
    size, data = written.to_bytes(4, "little"), content.index(b"data") + 4
    sound = size if written else content[data : data + 4]  # 0 there would be read as no sound
    path.write_bytes(content[:4] + size + content[8:data] + sound + content[data + 4 :])
    np.testing.assert_array_equal(AudioFeatures().extract(path), expected)


def test_a_file_cut_off_after_its_sound_has_all_of_it(tmp_path: Path) -> None:
    path = write_wave(tmp_path / "a.wav", melody(1.0))
    expected, content = AudioFeatures().extract(path), path.read_bytes()
    path.write_bytes(content[:4] + (len(content) + 20000).to_bytes(4, "little") + content[8:])
    np.testing.assert_array_equal(AudioFeatures().extract(path), expected)
