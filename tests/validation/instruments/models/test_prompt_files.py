"""Files of prompts: what is written, that changes are noticed, that hostile ones do no harm."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hostile_files import Bomb
from refusals import value_error

from iclimit.array_files import FREE_BYTES
from iclimit.problem import Problem
from iclimit.validation.instruments.models.files import PromptFile, read_prompts, write_prompts

PROBLEM = Problem(
    dim=2,
    context=3,
    input_law="uniform",
    scale=0.5,
    input_covariance=np.array([1.0, 2.0]),
    task_law="sphere",
    task_variance=2.0,
    task_covariance=np.array([[1.0, 0.5], [0.5, 1.0]]),
    noise_law="categorical:0.5,1",
    tasks=np.arange(6.0).reshape(3, 2),
)
PROMPTS = PromptFile(PROBLEM, test_prompts=8, seed=3)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 64 prompts, for a block is drawn whole."""
    monkeypatch.setattr("iclimit.simulate.prompts.sampling.BLOCK_NUMBERS", 2**9)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "prompts.npz"
    write_prompts(path, PROMPTS)
    return path


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def rewritten(path, **changes):
    """The file with other arrays; None drops one."""
    arrays = {k: v for k, v in (arrays_of(path) | changes).items() if v is not None}
    np.savez(path, **arrays)
    return path


def described(path, **changes):
    """The file with another description."""
    content = json.loads(str(arrays_of(path)["description"])) | changes
    return rewritten(path, description=np.array(json.dumps(content)))


@pytest.mark.parametrize("float32", [False, True])
def test_prompts_are_those_of_the_sections(tmp_path, float32):
    path = tmp_path / "prompts.npz"
    write_prompts(path, PromptFile(PROBLEM, test_prompts=8, seed=3, float32=float32))
    arrays = arrays_of(path)
    first = 0
    for code, section in enumerate(PROMPTS.sections):
        for block in section.blocks():
            chosen = slice(first, first + len(block))
            for name in ("inputs", "labels", "query"):
                assert arrays[name].dtype == ("f4" if float32 else "f8")
                expected = getattr(block, name).astype(arrays[name].dtype)
                assert np.array_equal(arrays[name][chosen], expected)
            assert set(arrays["section"][chosen]) == {code}
            first += len(block)
    assert first == len(arrays["section"]) == len(PROMPTS)
    for section, block in read_prompts(path).blocks():
        assert np.array_equal(block.query, block.query.astype("f4")) == float32, section.name


def test_a_file_says_what_it_was_drawn_from(path):
    found = read_prompts(path)
    for name, value in vars(PROBLEM).items():
        np.testing.assert_array_equal(getattr(found.problem, name), value)
    assert (found.test_prompts, found.seed, found.float32) == (8, 3, False)


def test_the_same_prompts_are_the_same_bytes(path):
    before = path.read_bytes()
    write_prompts(path, PROMPTS)
    assert path.read_bytes() == before


def test_a_file_that_was_compressed_is_the_same_file(path):
    np.savez_compressed(path, **arrays_of(path))
    assert len(read_prompts(path)) == len(PROMPTS)


@pytest.mark.parametrize("name", ["inputs", "labels", "query"])
@pytest.mark.parametrize("change", [1e-3, np.nan])
def test_the_first_prompt_that_was_changed_is_named(path, name, change):
    values = arrays_of(path)[name]
    values[17:19] += change
    with pytest.raises(ValueError, match=f"seed draws, got other {name} for prompt 17 in "):
        read_prompts(rewritten(path, **{name: values}))


def test_other_rounding_is_no_change(path):
    arrays = arrays_of(path)
    nudged = {name: arrays[name] * (1 + 1e-14) for name in ("inputs", "labels", "query")}
    assert len(read_prompts(rewritten(path, **nudged))) == len(PROMPTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "got other inputs for prompt 0 in"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"test_prompts": 10**12}, "prompts must be of iclimit"),
        ({"test_prompts": "many"}, "test_prompts must be an integer"),
        ({"float32": 1}, "float32 must be true or false, got 1"),
        ({"format": 2, "versions": {"iclimit": "9"}}, "of iclimit .*, which iclimit 9 made"),
        ({"sections": {"fresh": 8}}, "prompts must be of iclimit"),
        ({"sections": 3}, "prompts must be a file of iclimit prompts"),
        ({"problem": {"context": 3}}, "problem must have dim, got none"),
        ({"problem": {"context": 3, "dim": 2, "noise": 1}}, "got 'noise' .*did you mean noise_"),
        ({"problem": {"context": 3, "dim": 2, "scale": [1]}}, "scale must be > 0"),
        ({"problem": {"context": 3, "dim": 3}}, r"tasks must have shape \(any, 3\)"),
    ],
)
def test_changed_descriptions(path, change, message):
    value_error(message, read_prompts, described(path, **change))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"description": None}, "iclimit prompts, got .* with inputs, labels, .*: it comes first"),
        ({"description": np.array("{")}, "prompts must be a file of iclimit prompts"),
        ({"description": np.array("[" * 10**5)}, "prompts must be a file of iclimit prompts"),
        ({"description": np.ones(3)}, "description must be text, got float64"),
        ({"labels": None}, "must have an array 'labels', got description, inputs"),
        ({"labels": np.ones((3, 3))}, r"labels must be numbers of shape .* got \(3, 3\)"),
        ({"query": np.ones((1732, 2), dtype=bool)}, "query must be numbers"),
        ({"section": np.zeros(1732, dtype=int)}, "section must be numbers"),
    ],
)
def test_files_with_other_arrays(path, changes, message):
    value_error(message, read_prompts, rewritten(path, **changes))


def test_other_numbers_of_sections(path):
    codes = arrays_of(path)["section"][::-1]
    with pytest.raises(ValueError, match="section must be that of iclimit prompts"):
        read_prompts(rewritten(path, section=codes))


@pytest.mark.parametrize("name", ["description", "inputs", "section", "pretraining_tasks"])
def test_pickled_code_is_not_run(path, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rewritten(path, **{name: np.array([Bomb()], dtype=object)})
    value_error(f"{name} in .* must be an array of numbers, got object", read_prompts, path)
    assert not Path("harmed").exists()


def forge(path, name, kind, shape, size):
    """Replace an array by so many zero bytes under a header of this type and shape."""
    arrays = arrays_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, values in arrays.items():
            with archive.open(f"{each}.npy", "w") as stream:
                if each != name:
                    np.save(stream, values)
                    continue
                header = {"descr": kind, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(bytes(size))


@pytest.mark.parametrize("name", ["description", "pretraining_tasks"])
def test_what_is_larger_than_its_file_is_refused(path, name):
    """64 MiB of zeros, which are 64 KiB in the file."""
    count = FREE_BYTES // 4 + 1
    forge(path, name, "<U1", (count,), 4 * count)
    assert path.stat().st_size < 10**5
    value_error("arrays in .* must not be larger than the file", read_prompts, path)


def test_headers_that_lie(path):
    whole = path.read_bytes()
    for shape in [(10**9, 3, 2), (-1, 3, 2), (-5, -6)]:
        path.write_bytes(whole)
        forge(path, "pretraining_tasks", "<f8", shape, 240)
        value_error(r"pretraining_tasks in .* must be intact, got 240", read_prompts, path)


def test_damaged_files(path):
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    contents = [b"", b"text", whole[:-9], whole[::-1], *(whole[: 2**k] for k in range(5, 13))]
    for _ in range(60):
        damaged = bytearray(whole)
        # Names, sizes and checksums are at the end.
        for place in (*generator.integers(len(whole), size=2), -generator.integers(1, 600)):
            damaged[place] ^= int(generator.integers(1, 256))
        contents.append(bytes(damaged))
    refused = 0
    for content in contents:
        path.write_bytes(content)
        try:
            read_prompts(path)
        except ValueError as error:
            refused += "\n" not in str(error)
    # A date, or the like, may be changed.
    assert refused > 0.8 * len(contents)


def test_other_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_prompts(tmp_path / "none.npz")
    for name in ("rows.csv", "rows.parquet", "rows.json"):
        value_error(".npz, got .*: iclimit prompts with the same", read_prompts, tmp_path / name)
    value_error(r"in a file .npz, got .*rows\.txt'$", read_prompts, tmp_path / "rows.txt")
    value_error("written to a file .npz", write_prompts, tmp_path / "rows.csv", PROMPTS)


def test_an_interrupted_writer_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("iclimit.validation.instruments.models.files.section_codes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_prompts(path, PROMPTS)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
