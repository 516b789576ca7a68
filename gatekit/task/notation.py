"""One plain spelling for what models write: digits, signs, spaces, currency, Markdown and LaTeX."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

THIN_SPACE = "\u202f"  # stands for every space that parts thousands and never words

_MINUS_SIGNS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"
_THIN_SPACES = "\xa0\u2006\u2007\u2008\u2009\u200a\u202f"
_OTHER_SIGNS = {
    "\u066b": ".",
    "\u066c": ",",
    "\u2044": "/",
    "\uff0c": ", ",
    "≈": "=",
    "\u2028": "\n",
    "\u2029": "\n",
}

_CALCULATOR = re.compile(r"<<[^<>\n]*>>")
_CURRENCY_CODE = re.compile(r"\b(?:USD|EUR|GBP|INR|CNY|RMB|JPY|AUD|CAD|CHF|(?:HK|NT|US|[ACRS])(?=\$)|Rs\.?)(?= ?[$\d])")
_MAY_BE_CODE = re.compile(r"[A-Z][A-Z$s]")  # how each currency code begins
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_FEW_SIGNS = 4  # so many passes over the text are quicker than one that looks at each of its signs
_JOINING_SIGNS = frozenset("\uff0c⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")  # what depends on the signs around it
_FULLWIDTH_GROUP = re.compile(r"(?<=[\uff10-\uff19])\uff0c(?=[\uff10-\uff19]{3})")
_POWER_OF_TEN = re.compile(r"(?<=10)[⁺⁻]?[⁰¹²³⁴-⁹]{1,8}")

_LATEX_FRACTION = re.compile(r"\\[dtc]?frac\s{0,3}(?:\{([^{}]{1,60})\}\s{0,3}\{([^{}]{1,60})\}|(\d)\s?(\d))")
_LATEX_STYLE = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt|bb|normal|ord)|mbox|hbox|boldsymbol|bm|bf|rm"
    r"|left|right|displaystyle|large|Large|huge|Huge|operatorname|underline|boxed|fbox|quad|qquad)(?![A-Za-z])"
)
_LATEX_SIGNS = {
    "times": "×",
    "cdot": "*",
    "div": "÷",
    "approx": "=",
    "infty": " infinity ",
    "pounds": "$",
    "dollar": "$",
    "degree": "",
    "circ": "",
}
_LATEX_SIGN = re.compile(r"\\(" + "|".join(_LATEX_SIGNS) + r")(?![A-Za-z])")


def plain_notation(text: str) -> str:
    """The text with ASCII digits and signs, `$` for every currency, and no calculator marks, bold or LaTeX.

    Linear in the text. Characters without a role in numbers stay as they are.
    """
    if not text.isascii():
        text = _with_plain_signs(text)
    if "<<" in text:
        text = _CALCULATOR.sub("", text)
    text = text.replace("**", " ").replace("__", " ")
    if "\\" in text or "{" in text:
        text = _without_latex(text)
    return text if _MAY_BE_CODE.search(text) is None else _CURRENCY_CODE.sub(" $", text)


def _with_plain_signs(text: str) -> str:
    signs = set(_FOREIGN.findall(text))
    if not signs.isdisjoint(_JOINING_SIGNS):
        text = _POWER_OF_TEN.sub(_caret, _FULLWIDTH_GROUP.sub(",", text))
    plain = {sign: plain for sign in signs if (plain := _plain_sign(sign)) != sign}
    if len(plain) > _FEW_SIGNS:
        return text.translate({ord(sign): to for sign, to in plain.items()})
    for sign, to in plain.items():  # what stands for a sign is none of them, so that the order does not matter
        text = text.replace(sign, to)
    return text


@lru_cache(maxsize=4096)
def _plain_sign(sign: str) -> str:
    if sign in _MINUS_SIGNS:
        return "-"
    if sign in _THIN_SPACES:
        return THIN_SPACE
    if sign in _OTHER_SIGNS:
        return _OTHER_SIGNS[sign]
    return _sign_by_category(sign)


def _sign_by_category(sign: str) -> str:
    category = unicodedata.category(sign)
    if category == "Nd":
        return str(unicodedata.digit(sign))
    if category == "Sc":
        return "$"
    if category == "Cf":  # invisible: joiners, direction marks, byte order marks
        return ""
    if "\uff01" <= sign <= "\uff5e":
        return chr(ord(sign) - 0xFEE0)
    if category == "No" and "\u2044" in (fraction := unicodedata.normalize("NFKC", sign)):
        return " " + fraction.replace("\u2044", "/")
    return sign


def _caret(match: re.Match[str]) -> str:
    return "^" + unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-")


def _without_latex(text: str) -> str:
    text = text.replace("{,}", ",").replace("\\!", "").replace("\\,", THIN_SPACE).replace("\\\\", "\n")
    text = re.sub(r"\\([$%#&_])", r"\1", text)
    text = re.sub(r"\\[;: ()\[\]{}]", " ", text)
    text = _LATEX_STYLE.sub("", text)
    text = _LATEX_SIGN.sub(lambda match: _LATEX_SIGNS[match[1]], text)
    return re.sub(r"[{}]", "", _LATEX_FRACTION.sub(_quotient, text))


def _quotient(match: re.Match[str]) -> str:
    """`a/b` of two plain numbers; of anything else a word that no part of it can be read from."""
    over, under = (match[1] or match[3]).strip(), (match[2] or match[4]).strip()
    if re.fullmatch(r"-?[\d.,\u202f]+", over) and re.fullmatch(r"[\d.,\u202f]+", under):
        # a sign or the whole part of a mixed number stands right before it: "-\\frac{3}{4}", "3 \\frac{1}{2}"
        attached = match.string[match.start() - 1 : match.start()] in ("-", "$", " ")
        return f"{'' if attached else ' '}{over}/{under}"
    return " nan "
