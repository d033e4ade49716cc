"""The check of a release: what it leaves alone."""

import runpy
from pathlib import Path
from types import SimpleNamespace

check = SimpleNamespace(**runpy.run_path(Path(__file__).parent / "check_release.py"))


def test_no_step_uses_the_store_of_whoever_runs_it(tmp_path, monkeypatch):
    """A step without HOME would have the home of the user, and the store in it."""
    environments = []

    def run(words, env=None, **_):
        if env is not None:
            environments.append((words, env))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", run)
    (tmp_path / "venv").mkdir()
    check.use("wheel", tmp_path)
    assert any("validate" in words for words, _ in environments)
    for _, env in environments:
        place = env.get("ICLIMIT_STORE") or env["HOME"]
        assert tmp_path in Path(place).parents
