"""A stand-in for the gem5 binary: prints what gem5 24.0.0.1 prints (its `main.py`, and the result line of our script).

It reads the program's repetitions out of the executable, so that a driver that builds a wrong program gets no result.
Behaviour by environment variable FAKE_GEM5: `crash`, `silent`, `early`, `slow`, `old`.
"""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """#!{python}
import json, os, struct, sys, time
behaviour = os.environ.get("FAKE_GEM5", "")
version = "23.1.0.0" if behaviour == "old" else "24.0.0.1"
if "--build-info" in sys.argv:  # so fails 24.0.0.1
    print("Build information:\\n\\nAttributeError: module 'm5.defines' has no attribute 'gem5Version'")
    sys.exit(1)
print("gem5 Simulator System.  https://www.gem5.org\\n\\ngem5 version " + version)
print("gem5 compiled Aug  9 2024 10:00:00\\ncommand line: " + " ".join(sys.argv))
if sys.argv[-1].endswith(".py"):
    sys.exit(0)
machine = json.load(open(sys.argv[-2]))
assert machine["vlen_bits"] == 256 and machine["units"] and machine["cpu"]
elf = open(sys.argv[-1], "rb").read()
assert elf[:4] == b"\\x7fELF" and elf[18] == 243
entry = struct.unpack_from("<Q", elf, 24)[0]
for i in range(struct.unpack_from("<H", elf, 56)[0]):
    _, _, offset, address, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", elf, 64 + 56 * i)
    if address <= entry < address + size:
        word = struct.unpack_from("<I", elf, offset + entry - address)[0]
assert word & 0xFFFFF == 8 << 7 | 0x13  # addi s0, zero, repetitions
if behaviour == "slow":
    print("still running", flush=True)
    open(os.environ["FAKE_GEM5_LOG"] + ".pid", "w").write(str(os.getpid()))
    time.sleep(60)
if behaviour == "crash":
    for name in ["SimdSha1Hash", "Matrix", "MatrixMov", "MatrixOP"] * 4:
        print("src/cpu/minor/execute.cc:166: warn: No functional unit for OpClass " + name)
    print("src/sim/simulate.cc:199: info: Entering event queue @ 0.  Starting simulation...")
    print("src/arch/riscv/faults.cc:204: panic: Unknown instruction 0x5b at pc (0x10000=>0x10004).(0=>1)")
    print("Memory Usage: 605108 KBytes\\nProgram aborted at tick 64000\\n--- BEGIN LIBC BACKTRACE ---")
    print("\\n".join(["gem5.fast(+0x5ae54e)[0x55e2bbf3f54e]"] * 30) + "\\n--- END LIBC BACKTRACE ---", flush=True)
    os.abort()
if behaviour == "silent":
    sys.exit(0)
cause = "exiting with last active thread context"
if behaviour == "early":
    cause = "a thread reached the max instruction count"
with open(os.environ["FAKE_GEM5_LOG"], "a") as log:
    log.write("run\\n")
print("**** REAL SIMULATION ****")
print("TICKS", 500000 + (word >> 20) * 1234000, cause)
"""


def install(folder: Path, python: str) -> Path:
    """An executable `gem5` in `folder`. Each call costs 1234 cycles."""
    path = folder / "gem5"
    path.write_text(_SCRIPT.replace("{python}", python), encoding="utf-8")
    path.chmod(0o755)
    return path
