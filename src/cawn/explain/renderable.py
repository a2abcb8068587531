"""What the explanation of a link and the law of a model have in common: their output formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cawn.explain.drawing import Drawing
    from cawn.explain.views import ExplanationView, LawView


class Renderable(ABC):
    """A dataclass that can be written as JSON, as a page and as a picture."""

    __slots__ = ()

    @abstractmethod
    def view(self) -> ExplanationView | LawView:
        """What is shown."""

    def to_dict(self) -> dict[str, Any]:
        """The values as types that JSON has."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from cawn.explain.page import page

        return page(self.view(), self.to_dict())

    def _repr_html_(self) -> str:
        """The page as notebooks show it."""
        from cawn.explain.page import frame

        return frame(self.view(), self.to_dict())

    def to_svg(self) -> str:
        """The picture as SVG."""
        return self.to_picture().to_svg()

    def to_picture(self) -> Drawing:
        """The picture; its `to_png` writes a PNG file."""
        from cawn.explain.pictures import picture

        return picture(self.view())
