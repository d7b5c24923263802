"""The simulators as Python sees them: functional engine, timing simulator, gem5 as a second source of cycles."""
