"""The notebooks run, and are stored without outputs: a number in a document comes from stored results."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        assert cell.outputs == [] and cell.execution_count is None, "strip the outputs"
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    assert all(cell.execution_count for cell in code)
    shown = [output for cell in code for output in cell.outputs if output.output_type != "stream"]
    assert len(shown) >= 5
    assert list(tmp_path.iterdir()) == [], "a notebook leaves no files"
