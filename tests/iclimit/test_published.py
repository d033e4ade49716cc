"""Published settings by name."""

import iclimit
from iclimit.notation import PARAMETERS
from iclimit.published import PAPERS


def test_a_setting_says_where_it_stands_and_speaks_the_notation():
    for name in iclimit.settings:
        setting = iclimit.settings[name]
        paper = name.partition("-")[0]
        assert setting.reference.startswith(PAPERS[paper])
        assert len(setting.reference) > len(PAPERS[paper]), "and the place in the paper"
        for parameter, value in setting.items():
            allowed = PARAMETERS[parameter].range
            assert allowed is None or not isinstance(value, (int, float)) or value in allowed


def test_a_setting_is_passed_on_as_arguments():
    setting = iclimit.settings["lu2025-figure-1"]
    assert dict(setting) == {"kappa": 0.5, "rho": 0.01}
    assert len(setting) == 2
    found = iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01)
    assert iclimit.icl_error(tau=2, alpha=1, **setting) == found
