"""The dialect of Sigma; pySigma reads the rules, so it loads with the first of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

from cepheid.errors import DataError, Diagnostic
from cepheid.translate.translated import Dialect, Settings, SourceFile, Translated


def translate_sigma(files: Sequence[SourceFile], settings: Settings) -> Iterable[Translated]:
    """Translate all rules of all files.

    Raises
    ------
    DataError
        E585 without pySigma.
    """
    if importlib.util.find_spec("sigma") is None:
        message = "rules of Sigma need the package `pysigma`, which is not installed"
        helps = ("install it: `pip install 'cepheid[sigma]'`",)
        raise DataError([Diagnostic("E585", message, helps=helps)])
    from cepheid.translate.sigma.rules import translate_rules

    return translate_rules(files, settings)


SIGMA = Dialect("sigma", "Sigma", (".yml", ".yaml"), "type", translate_sigma)
