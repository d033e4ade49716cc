"""Map the four source folders to one import name.

The folders ``asymptotics``, ``simulate`` and ``validation`` stand beside ``iclimit`` and are
imported as ``iclimit.asymptotics`` and so on.  Packages are found, not listed, so that a new
sub-package cannot be missing from the wheel.
"""

from setuptools import find_packages, setup

ROOMS = ("asymptotics", "simulate", "validation")

packages = [
    "iclimit",
    *(
        f"iclimit.{name}"
        for name in find_packages(
            "iclimit", exclude=[pattern for room in ROOMS for pattern in (room, f"{room}.*")]
        )
    ),
]
package_dir = {"iclimit": "iclimit"}
for room in ROOMS:
    packages += [f"iclimit.{room}", *(f"iclimit.{room}.{name}" for name in find_packages(room))]
    package_dir[f"iclimit.{room}"] = room

setup(packages=packages, package_dir=package_dir)
