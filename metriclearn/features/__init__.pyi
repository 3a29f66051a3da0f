"""The public names of metriclearn.features."""

from . import media as media
from . import per_recording as per_recording
from .media.audio import AudioFeatures as AudioFeatures
from .media.decoding import AUDIO_SUFFIXES as AUDIO_SUFFIXES
from .media.decoding import VIDEO_SUFFIXES as VIDEO_SUFFIXES
from .media.decoding import audio_blocks as audio_blocks
from .media.decoding import duration as duration
from .media.decoding import video_frames as video_frames
from .media.gist import Gist as Gist
from .media.image import ImageFeatures as ImageFeatures
from .media.video import ColorHistogram as ColorHistogram
from .media.video import VideoFeatures as VideoFeatures
from .per_recording import JoinedFeatures as JoinedFeatures
