"""CustomResourceDefinitions made from the models. `python -m gt_protocol.resources.crd FOLDER...` writes them."""

from gt_protocol.resources.crd.definition import definitions, render

__all__ = ["definitions", "render"]
