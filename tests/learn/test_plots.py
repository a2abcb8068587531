"""Plots: the same bytes each time, colours of the reader's theme, and several on one page."""

from xml.etree.ElementTree import fromstring

from cawn.learn.plots import INK, to_svg


def line(figure) -> None:
    axis = figure.subplots()
    axis.plot([1, 2, 3], [4, 6, 5], "o-", label="a <label>")
    axis.grid()
    axis.legend()


def test_the_same_data_give_the_same_bytes() -> None:
    assert to_svg(line, (3, 2)) == to_svg(line, (3, 2))


def test_a_file_has_the_colours_of_both_themes() -> None:
    text = to_svg(line, (3, 2))
    assert fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in text
    assert text.count(INK) == 1  # only where the theme is defined
    assert "a &lt;label&gt;" in text
    assert "<dc:date>" not in text


def test_an_element_takes_the_colours_of_its_page() -> None:
    text = to_svg(line, (3, 2), standalone=False)
    assert text.startswith("<svg")
    assert fromstring(text).tag.endswith("svg")
    assert "<style" not in text
    assert 'id="figure_1"' not in text
    assert "var(--ink)" in text
    assert INK not in text
