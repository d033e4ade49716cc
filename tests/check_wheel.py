"""Build the wheel, compare its files with git's, and use it from an empty directory.

Then install a clone with ``-e``, and use it from the folder that holds the clone.

Run as ``python tests/check_wheel.py``; exits with a message if the wheel is not what it should be.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("asymptotics", "simulate", "validation")
SMOKE = """
import sys, iclimit, iclimit.cli, iclimit.validation
from iclimit.validation.reference.runs import error_runs
assert sys.argv[1] in iclimit.__file__, iclimit.__file__
assert len(error_runs()) == 23
assert abs(iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01) - 1.2340) < 1e-4
try:
    iclimit.curve("bayes_error", alpha=[1.0, 2.0], rho=0.1).to_xarray()
except RuntimeError as error:
    assert "pip install 'iclimit[labelled]'" in str(error), error
else:
    raise SystemExit("xarray is in an environment without extras")
try:
    import asymptotics
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the bare name 'asymptotics' is in the environment")
"""


def tracked():
    """Package files that git tracks, under the names they are imported by."""
    listed = subprocess.run(
        ["git", "ls-files", "iclimit", *ROOMS],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    files = {name for name in listed if not (ROOT / name).is_symlink()}
    return {name if name.startswith("iclimit/") else f"iclimit/{name}" for name in files}


def main():
    """Build, compare, install, use."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = place / "clones" / "iclimit"
        # What git tracks and nothing else: a stale build folder would end up in the wheel.
        export = ["git", "checkout-index", "--all", f"--prefix={source}/"]
        subprocess.run(export, cwd=ROOT, check=True)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(source)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = place.glob("*.whl")
        packed = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
        if packed != tracked():
            missing = sorted(tracked() - packed)
            extra = sorted(packed - tracked())
            sys.exit(f"wheel and git differ; missing: {missing}, not in git: {extra}")
        environment = place / "venv"
        elsewhere = place / "empty"
        elsewhere.mkdir()
        # The pip that runs this serves the environment: installing another takes six seconds.
        new = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
        subprocess.run(new, check=True)
        python = environment / "bin" / "python"
        # Most of what is installed is never imported.
        options = ["-q", "--disable-pip-version-check", "--no-compile"]
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
        subprocess.run([*install, str(wheel)], check=True)
        subprocess.run([python, "-c", SMOKE, "site-packages"], check=True, cwd=elsewhere)
        subprocess.run(
            [environment / "bin" / "iclimit", "claims"],
            check=True,
            cwd=elsewhere,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run([*install, "--no-deps", "-e", str(source)], check=True)
        subprocess.run([python, "-c", SMOKE, "clones"], check=True, cwd=source.parent)
    print(f"wheel holds the {len(packed)} files of git and works from an empty directory")
    print("a clone that is installed with -e works from the folder that holds it")


if __name__ == "__main__":
    main()
