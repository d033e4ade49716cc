"""Text and pictures of pages."""

import io

from PIL import Image

from iclimit.html_parts import embedded, marked_up


def test_formulas_and_code_are_marked_up_and_all_else_is_escaped():
    page = marked_up("a < b, ``x < 1`` and $P = 8 d$ <br>")
    assert page.startswith("a &lt; b, <code>x &lt; 1</code> and <math")
    assert page.endswith("</math> &lt;br&gt;")
    assert "<mi>P</mi>" in page


def test_pictures_are_small_and_have_their_size():
    file = io.BytesIO()
    Image.new("RGBA", (2200, 1000), "white").save(file, "PNG")
    image = embedded(file.getvalue(), "a 'figure'")
    assert "width='1100' height='500'" in image
    assert "alt='a &#x27;figure&#x27;'" in image
    assert len(image) < 5000
