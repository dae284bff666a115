"""Results as notebooks show them. HTML and drawings of a program are in a frame that runs no scripts and fetches nothing. Otherwise the
program could reach the notebook's page, and through it this process."""

from __future__ import annotations

import base64
import html
import re
from typing import Any, Dict, List, Mapping, Union

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"
_REACHES = re.compile(r"<(?=/?(?:base|embed|form|frame|frameset|iframe|link|meta|object|script)\b)", re.IGNORECASE)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}  # terminals obey them
_MOST_ROWS = 30
_MOST_SHOWN = 200  # characters of a text in a repr


def bundle_of(result: Any) -> Dict[str, str]:
    """Returns a Result by MIME type, as IPython asks for it."""
    plain = _plain(result)
    shown = [*result.displays, *([result.value] if result.value else [])]
    bundle = {"text/plain": plain}
    if len(shown) == 1 and not result.stdout and not result.stderr and not result.error and "text/html" not in shown[0]:
        for kind in ("image/png", "image/jpeg"):
            if kind in shown[0]:
                bundle[kind] = base64.b64encode(_bytes_of(shown[0][kind])).decode()
    if len(bundle) == 1 and any(kind in forms for forms in shown for kind in ("text/html", *_IMAGES)):
        bundle["text/html"] = _frame(result, shown)
    return bundle


def repr_of(result: Any) -> str:
    words = [result.outcome]
    if result.text:
        words.append(_short(result.text))
    for name in ("stdout", "stderr"):
        if getattr(result, name):
            words.append(f"{name}={_short(repr(getattr(result, name)))}")
    if result.displays:
        words.append(f"displays={len(result.displays)}")
    if result.error:
        words.append(f"error={_short(f'{result.error.code}: {result.error.message}')}")
    if result.exit_code:
        words.append(f"exit_code={result.exit_code}")
    return f"<Result {', '.join(words)}, fuel={result.fuel_used}>"


def _short(text: str) -> str:
    text = text.translate(_CONTROLS)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


def _plain(result: Any) -> str:
    parts = [result.stdout, result.stderr, result.text]
    if result.error:
        parts.append(result.error.traceback or str(result.error))
    return "\n".join(part.rstrip("\n") for part in parts if part).translate(_CONTROLS) or repr(result)


def _frame(result: Any, shown: List[Mapping[str, Union[str, bytes]]]) -> str:
    parts = [f"<pre>{html.escape(text)}</pre>" for text in (result.stdout, result.stderr) if text]
    parts += [_part(forms) for forms in shown]
    if result.error:
        parts.append(f"<pre>{html.escape(result.error.traceback or str(result.error))}</pre>")
    body = "\n".join(parts)
    rows = min(_MOST_ROWS, 4 + 2 * body.count("<tr") + body.count("\n") + 25 * ("<img" in body))
    page = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta http-equiv="x-dns-prefetch-control" content="off">'
    page += f'<body style="font-family: sans-serif">{body}'
    style = f"width: 100%; height: {rows}em; border: 0; resize: vertical; background: white"
    return f'<iframe sandbox referrerpolicy="no-referrer" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _part(forms: Mapping[str, Union[str, bytes]]) -> str:
    if "text/html" in forms:
        return f"<div>{_REACHES.sub('&lt;', str(forms['text/html']))}</div>"
    for kind in _IMAGES:
        if kind in forms:
            return f'<img src="data:{kind};base64,{base64.b64encode(_bytes_of(forms[kind])).decode()}">'
    return f"<pre>{html.escape(str(forms.get('text/plain', '')))}</pre>"


def _bytes_of(content: Union[str, bytes]) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
