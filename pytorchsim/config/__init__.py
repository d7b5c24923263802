"""Configuration: the machine (`NpuConfig`, presets, YAML files) and the environment variables."""

from pytorchsim.config.environment import Environment, read_environment
from pytorchsim.config.load import DEFAULT_PRESET, ConfigSource, load_config, preset_names
from pytorchsim.config.model import NpuConfig

__all__ = [
    "DEFAULT_PRESET",
    "ConfigSource",
    "Environment",
    "NpuConfig",
    "load_config",
    "preset_names",
    "read_environment",
]
