"""Map the four source folders to one import name.

The folders ``asymptotics``, ``simulate`` and ``validation`` stand beside ``iclimit`` and are
imported as ``iclimit.asymptotics`` and so on.  Packages are found, not listed, so that a new
sub-package cannot be missing from the wheel.

``pip install -e`` puts the folder ``editable``, which holds nothing but a link to ``iclimit``, on
the path.  The import hook that setuptools would install instead comes after the path, where a
clone named ``iclimit`` in the working directory is found first, as an empty namespace package.
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
package_dir = {"": "editable", "iclimit": "iclimit"}
for room in ROOMS:
    packages += [f"iclimit.{room}", *(f"iclimit.{room}.{name}" for name in find_packages(room))]
    package_dir[f"iclimit.{room}"] = room

setup(packages=packages, package_dir=package_dir, options={"editable_wheel": {"mode": "compat"}})
