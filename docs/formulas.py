"""Typeset formulas: docstrings have them in Unicode, pages in LaTeX, and browsers show MathML."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

# Signs, and how LaTeX writes them.
# fmt: off
_SIGNS = {
    "Σ": r"\sum", "‖": r"\Vert", "|": r"\vert", "⟨": r"\langle", "⟩": r"\rangle", "−": "-",
    "·": r"\cdot", "≤": r"\le", "≥": r"\ge", "⪰": r"\succeq", "∈": r"\in", "∩": r"\cap",
    "×": r"\times", "∇": r"\nabla", "∂": r"\partial", "∞": r"\infty", "√": r"\surd", "…": r"\dots",
    "²": "^{2}", "ᵀ": r"^{\top}", "′": "'", "₊": "_{+}", "₀": "_{0}", "₁": "_{1}", "ℓ": r"\ell",
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "θ": r"\theta", "κ": r"\kappa",
    "λ": r"\lambda", "μ": r"\mu", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "φ": r"\varphi",
    "ψ": r"\psi", "ω": r"\omega", "Ω": r"\Omega", "Π": r"\Pi",
}
# fmt: on
_FUNCTIONS = {"max", "min", "log", "exp", "argmax", "argmin", "Tr", "Diag"}
_WORDS = {"in", "of"}
# A formula of a docstring is an indented paragraph with one of these signs.
_FORMULA = re.compile("[Σ‖⟨⪰√]")


def latex(formula: str) -> str:
    """Translate a formula from Unicode, such as ``Σ_i ‖M − N_i‖²_F``, to LaTeX."""
    formula = re.sub("(.)\u0304", r"\\bar{\1}", formula)
    written, groups = "", []
    for token in re.findall(r"\\bar|[A-Za-z]+|.", formula):
        script = written.endswith(("_", "^", r"\bar"))
        if token == "{":
            # After _ and ^, braces only group. Elsewhere they are shown.
            groups.append(script)
            written += "{" if script else r"\{"
        elif token == "}":
            written += "}" if groups.pop() else r"\}"
        elif token in _FUNCTIONS:
            written += rf"\{token} " if token in ("max", "min") else rf"\operatorname{{{token}}}"
        elif token.isascii() and token.isalpha() and (len(token) > 3 or token in _WORDS):
            written += rf"{{\text{{{token}}}}}"
        elif token == " ":
            written += r"\ " if groups and groups[-1] else " "
        else:
            sign = _SIGNS.get(token, token)
            written += f"{{{sign}}}" if script and len(token) > 1 else sign
            written += " " if sign.startswith("\\") and token != r"\bar" else ""
    return re.sub(r" {3,}", r" \\qquad ", written)


def typeset(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Mark the formulas of a docstring, in place."""
    text = "\n".join(lines)

    def marked(match: re.Match[str]) -> str:
        rows = match[1].rstrip("\n").split("\n")
        if not _FORMULA.search(match[1]) or any(">>>" in row for row in rows):
            return match[0]
        body = r" \\ ".join(latex(row.strip()) for row in rows)
        return f"\n\n.. math::\n\n    {body}\n"

    lines[:] = re.sub(r"\n\n((?: {4}[^\n]+\n)+)(?=\n|$)", marked, text + "\n").split("\n")


def visit(self: Any, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers typeset without scripts."""
    block = isinstance(node, nodes.math_block)
    tree = latex2mathml.tex2mathml(node.astext(), as_block=block)
    self.body.append(f"<div class='formula'>{tree}</div>" if block else tree)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", typeset, priority=100)  # before numpydoc
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True}
