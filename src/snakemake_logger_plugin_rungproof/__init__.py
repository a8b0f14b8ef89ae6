"""What a call of Snakemake shows on the terminal: the lines of rungproof's own jobs, how far they are, errors, nothing else.

Snakemake finds this module by its name; `logger: [rungproof]` in profiles/default turns it on. Snakemake's own account of
every job goes to .snakemake/log/ in full, as ever. `snakemake -n` (a dry run) prints its list of jobs as usual.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from snakemake.logging import DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_rungproof.display import Display

OF_A_JOB = "CalledProcessError"  # Snakemake's second account of a job that failed; the job has said why itself
NOTHING = "Nothing to be done"  # the one plain message that tells a user something


class LogHandler(LogHandlerBase):
    """Shows warnings, errors, failed jobs with their log's name, and that nothing was to be done."""

    def __post_init__(self) -> None:
        """Keep Snakemake's own wording for what is shown."""
        self.wording = DefaultFormatter(self.common_settings.quiet, False)
        self.display: Display | None = None
        if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not self.common_settings.dryrun:
            with suppress(OSError):  # a folder that cannot be written has its own error; lines stay plain
                self.display = Display(sys.stderr, Path(".snakemake"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, or leave it to the log file."""
        text = self._text(record)
        if text and self.display:
            self.display.say(text)
        elif text:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Give the terminal back as it was."""
        if self.display:
            self.display.close()
        super().close()

    def _text(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", None)
        if self.common_settings.dryrun:
            return str(self.wording.format(record) or "") if event != LogEvent.DEBUG_DAG else ""
        if event == LogEvent.JOB_ERROR:
            logs = ", ".join(str(path) for path in getattr(record, "log", None) or [])
            return f"job failed: {getattr(record, 'rule_name', '?')}" + (f" (log: {logs})" if logs else "")
        if record.levelno >= logging.WARNING:
            text = str(self.wording.format(record) or record.getMessage())
            return "" if OF_A_JOB in text else text
        return record.getMessage() if event is None and record.getMessage().startswith(NOTHING) else ""

    @property
    def writes_to_stream(self) -> bool:
        """Yes: to stderr."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """No: Snakemake writes its log file itself."""
        return False

    @property
    def has_filter(self) -> bool:
        """Yes: `emit` decides."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Yes: the wording is kept or replaced in `emit`."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No."""
        return False
