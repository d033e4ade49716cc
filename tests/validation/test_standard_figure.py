from iclimit.validation.standard_figure import family_styles


def test_families_look_different():
    many = [f"{rule}, v = {noise}" for noise in (0, 0.05) for rule in ("a", "b", "c", "d")]
    for families in (many, many[:3], [""]):
        assert len(set(family_styles(families))) == len(families)
    styles = dict(zip(many, family_styles(many), strict=True))
    assert styles["a, v = 0"][0] == styles["a, v = 0.05"][0] != styles["b, v = 0"][0]
    assert styles["a, v = 0"][1] == styles["b, v = 0"][1] != styles["b, v = 0.05"][1]
