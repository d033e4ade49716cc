"""A stand-in for ``cupy.ElementwiseKernel``: the compiler of this machine, one point at a time."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

# What CUDA has without being asked.
HEAD = """
#include <cmath>
#define __device__
using namespace std;
"""

FLAGS = (
    "-O1",
    "-std=c++17",
    "-ffp-contract=off",
    "-shared",
    "-fPIC",
    "-Werror",
    "-Wno-div-by-zero",
)


class ElementwiseKernel:
    """Kernel of float64 numbers; arguments are those of CuPy's (docs.cupy.dev, CuPy 14.2)."""

    folder = None
    """Where sources and libraries are written."""

    def __init__(
        self, in_params, out_params, operation, name="kernel", *, preamble, options, return_tuple
    ):
        compiler = shutil.which("g++")
        if compiler is None:
            pytest.skip("no C++ compiler is installed: kernels are run on a GPU only")
        assert options == ("--fmad=false",)
        assert return_tuple
        given, found = (self._names(params) for params in (in_params, out_params))
        self.results = len(found)
        inputs = [f"const double *all_{each}" for each in given]
        outputs = [f"double *all_{each}" for each in found]
        pointers = ", ".join([*inputs, *outputs])
        taken = " ".join(f"const double {each} = all_{each}[i];" for each in given)
        kept = " ".join(f"double &{each} = all_{each}[i];" for each in found)
        loop = f"for (long i = 0; i < n; i++) {{\n{taken}\n{kept}\n{operation}\n}}"
        source = self.folder / f"{name}.cpp"
        source.write_text(
            f'{HEAD}\n{preamble}\nextern "C" void {name}(long n, {pointers}) {{\n{loop}\n}}\n'
        )
        library = source.with_suffix(".so")
        command = [compiler, *FLAGS, source, "-o", library]
        subprocess.run(command, check=True, timeout=120)
        self.function = getattr(ctypes.CDLL(library), name)

    @staticmethod
    def _names(params):
        kinds, names = zip(*(each.split() for each in params.split(",")), strict=True)
        assert set(kinds) == {"float64"}
        # Names that the loop of CuPy's kernels has for itself.
        assert not {"i", "n"} & set(names)
        return names

    def __call__(self, *arguments):
        arrays = [np.array(each, order="C") for each in np.broadcast_arrays(*arguments)]
        assert all(each.dtype == np.float64 for each in arrays)
        found = [np.empty(arrays[0].shape) for _ in range(self.results)]
        pointers = (ctypes.c_void_p(each.ctypes.data) for each in (*arrays, *found))
        self.function(ctypes.c_long(arrays[0].size), *pointers)
        return tuple(found)
