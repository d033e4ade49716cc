"""Build the archives of a release twice, compare them, and use the wheel as a stranger would.

Run as ``python tests/check_release.py FOLDER``, which puts the source archive and the wheel there;
exits with a message if one of them is not what it should be.  The stranger has nothing but the
wheel: an empty folder, a home that cannot be written, no locale, a narrow terminal and no tty.
"""

import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a stranger has before a verb of the README, by the name of the file.
OWN_FILES = {
    "check": (
        "runs.csv",
        "dim,tau,alpha,kappa,rho,test_loss,icl_se\n24,2,1,0.5,0.1,1.754,0.008\n24,2,2,0.5,0.1,1.604,0.008\n",
    ),
    "fit": (
        "runs.csv",
        "dim,tau,alpha,kappa,rho,ridge,icl,idg\n24,1,2,1,0.2,0.05,1.81,1.242\n"
        "24,2,2,1,0.2,0.05,1.09,0.705\n24,4,2,1,0.2,0.05,0.869,0.539\n",
    ),
}


def build(place, epoch):
    """Build both archives of what git tracks; the wheel is built from the source archive."""
    source = place / "iclimit"
    out = place / "dist"
    export = ["git", "checkout-index", "--all", f"--prefix={source}/"]
    subprocess.run(export, cwd=ROOT, check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, source],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
    )
    (archive,) = out.glob("*.tar.gz")
    archive.write_bytes(same_everywhere(archive.read_bytes(), epoch))
    return {path.name: path for path in out.iterdir()}


def same_everywhere(archive, epoch):
    """The same archive without times, owners and the order of the machine that made it."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            content = old.extractfile(member) if member.isfile() else None
            member.mtime = epoch
            member.uid = 0
            member.gid = 0
            member.pax_headers = {}
            member.uname = member.gname = ""
            new.addfile(member, content)
    return gzip.compress(plain.getvalue(), mtime=epoch)


def readme_commands():
    """Yield the commands of the README."""
    [block] = re.findall(
        r"## Command line\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    for line in block.replace("\\\n", "").splitlines():
        yield shlex.split(line, comments=True)


def readme_session():
    """The README's Python lines with what they print, as a file for doctest."""
    return "\n\n".join(
        re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    )


def use(wheel, place):
    """Install a wheel into a new environment and run the README's lines in an empty folder."""
    environment = place / "venv"
    empty = place / "empty"
    home = place / "home"
    empty.mkdir()
    home.mkdir(mode=0o500)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    subprocess.run([*install, "--disable-pip-version-check", wheel], check=True)
    stranger = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "LANG": "C", "COLUMNS": "40"}
    settings = {"cwd": empty, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    (empty / "readme.txt").write_text(readme_session(), encoding="utf-8")
    session = ["python", "-m", "doctest", "readme.txt"]
    answer = ["python", str(ROOT / "docs" / "tables" / "model_elsewhere.py")]
    lines = list(readme_commands())
    lines.insert(1 + [words[1] for words in lines].index("prompts"), answer)
    validate = ["iclimit", "validate", "ridgeless"]
    # The last step has no home, and so would use the data folder of whoever runs this.
    own_store = {"ICLIMIT_STORE": str(place / "runs.sqlite")}
    for variables, commands in (({"HOME": str(home)}, [session, *lines]), (own_store, [validate])):
        for words in commands:
            if words[1] in OWN_FILES:
                name, text = OWN_FILES[words[1]]
                (empty / name).write_text(text, encoding="utf-8")
            done = subprocess.run(words, env=stranger | variables, **settings)
            if done.returncode:
                sys.exit(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stderr}")
            print(f"ran {shlex.join(words)}", flush=True)


def main():
    """Build twice, compare, check, use, keep."""
    kept = Path(sys.argv[1])
    dated = ["git", "log", "-1", "--format=%ct"]
    epoch = int(subprocess.run(dated, cwd=ROOT, check=True, capture_output=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        archives, again = (build(place / name, epoch) for name in ("first", "second"))
        for name, path in archives.items():
            one, two = (
                hashlib.sha256(each.read_bytes()).hexdigest() for each in (path, again[name])
            )
            if one != two:
                sys.exit(f"{name} differs from a second one: {one}, {two}")
            print(f"{name} is built the same twice: sha256 {one}", flush=True)
        check = [sys.executable, "-m", "twine", "check", "--strict", *archives.values()]
        subprocess.run(check, check=True)
        use(next(path for name, path in archives.items() if name.endswith(".whl")), place)
        kept.mkdir(exist_ok=True)
        for path in archives.values():
            shutil.copy(path, kept)


if __name__ == "__main__":
    main()
