"""Run directories."""

import json
import pathlib

from . import _notebook


class Run:
    """A run directory: configuration, log, checkpoints. A notebook shows the curve of its losses."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        with open(self.path / "config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.steps, self.evals, self.staleness = [], [], []
        with open(self.path / "log.jsonl", encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # incomplete: the run was killed or is still writing
                row = json.loads(line)
                if "loss" in row:
                    self.steps.append(row)
                elif "eval_loss" in row:
                    self.evals.append(row)
                elif "rmse_stale" in row:
                    self.staleness.append(row)

    @property
    def losses(self):
        return [row["loss"] for row in self.steps]

    @property
    def checkpoints(self):
        """Steps with a checkpoint, ascending."""
        found = (self.path / "ckpt").glob("*/manifest.json")
        return sorted(json.loads(file.read_text())["step"] for file in found)

    def figure(self):
        """The curve of the losses as SVG."""
        return _notebook.curve(self.losses, title=self.path.name + " loss")

    def _repr_html_(self):
        return self.figure()
