"""An NVMe solid-state drive in software.

`run` simulates a scenario, `compare` and `sweep` vary it, `fit` makes a profile of a drive of your own, `reproduce` measures a
paper's claims again; `trace`, `kv` and `csd` have block traces, key-value drives and computational drives. Wrong input raises
`InputError` with its help.

    >>> import byteway
    >>> result = byteway.run({
    ...     "drive": {"profile": "samsung-970-pro"},
    ...     "job": [{"rw": "randread", "bs": "4 KiB", "iodepth": 32, "count": 20_000}],
    ... })
    >>> result.summary.ios
    20000
"""

from . import csd, errors, kv, profiles, sections, summary, trace
from ._native import SOURCES as __sources__
from ._native import VERSION as __version__
from ._fit import Fit, fit, fit_jobs
from ._policies import ScheduleView, Source, StreamView, SuspendView, VictimView, Waiting
from ._run import Result, run
from ._study import Comparison, Paper, Reproduction, compare, papers, reproduce, threshold
from ._sweep import Sweep, sweep
from ._table import Table
from .errors import DriveError, DriveGoneError, Error, InputError, Interrupted, RunError
from .sections import Drive, Host, Job, Kv, Measure, Query, Scenario, Target, Transfer

__all__ = [
    "Comparison",
    "Drive",
    "DriveError",
    "DriveGoneError",
    "Error",
    "Fit",
    "Host",
    "InputError",
    "Interrupted",
    "Job",
    "Kv",
    "Measure",
    "Paper",
    "Query",
    "Reproduction",
    "Result",
    "RunError",
    "Scenario",
    "ScheduleView",
    "Source",
    "StreamView",
    "SuspendView",
    "Sweep",
    "Table",
    "Target",
    "Transfer",
    "VictimView",
    "Waiting",
    "__sources__",
    "__version__",
    "compare",
    "csd",
    "errors",
    "fit",
    "fit_jobs",
    "kv",
    "papers",
    "profiles",
    "reproduce",
    "run",
    "sections",
    "summary",
    "sweep",
    "threshold",
    "trace",
]
