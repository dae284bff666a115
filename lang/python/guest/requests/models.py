"""What is asked, and what is answered."""

import http
import json
import os
import urllib.parse

from . import cookies, exceptions
from .structures import CaseInsensitiveDict

_REDIRECTS = (301, 302, 303, 307, 308)


class Request:
    """A request as a program says it; `prepare()` makes what is sent."""

    def __init__(self, method=None, url=None, headers=None, files=None, data=None, params=None, auth=None, json=None,
                 cookies=None):
        self.method, self.url, self.headers, self.files = method, url, headers or {}, files
        self.data, self.params, self.auth, self.json, self.cookies = data, params, auth, json, cookies

    def prepare(self):
        return PreparedRequest(self)

    def __repr__(self):
        return f"<Request [{self.method}]>"


class PreparedRequest:
    """`method`, `url`, `headers` and `body` (bytes or None) as they are sent."""

    def __init__(self, request):
        self.method = str(request.method).upper()
        self.headers = CaseInsensitiveDict({str(k): _header(k, v) for k, v in request.headers.items() if v is not None})
        self.url = _url_of(request.url, request.params)
        self.body = self._body_of(request)
        cookie = cookies.header_of(cookies.merged(request.cookies), self.url) if request.cookies else None
        if cookie:
            self.headers.setdefault("Cookie", cookie)
        auth = request.auth
        if auth is None:
            auth = self._take_user_from_url()
        if isinstance(auth, tuple) and len(auth) == 2:
            from .auth import HTTPBasicAuth
            auth = HTTPBasicAuth(*auth)
        if auth:
            auth(self)

    def _take_user_from_url(self):
        parts = urllib.parse.urlsplit(self.url)
        if parts.username is None:
            return None
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")

    def _body_of(self, request):
        if request.files:
            body, kind = _multipart(request.data, request.files)
        elif request.data:
            body, kind = _form_or_bytes(request.data)
        elif request.json is not None:
            try:
                body, kind = json.dumps(request.json, allow_nan=False).encode(), "application/json"
            except ValueError as error:
                raise exceptions.InvalidJSONError(error) from None
        else:
            return None
        if kind:
            self.headers.setdefault("Content-Type", kind)
        return body

    def __repr__(self):
        return f"<PreparedRequest [{self.method}]>"


def _header(name, value):
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        raise exceptions.InvalidHeader(f"the value of the header {name} is {type(value).__name__}, and not a str")
    return value


def _pairs(data):
    """(name, value) of a mapping or of pairs; a list of values gives several."""
    for name, values in data.items() if hasattr(data, "items") else data:
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            values = [values]
        for value in values:
            if value is not None:
                yield name, value


def _url_of(url, params):
    if not url:
        raise exceptions.URLRequired("there is no URL")
    text = url.decode() if isinstance(url, bytes) else str(url).strip()
    parts = urllib.parse.urlsplit(text)
    if not parts.scheme or not parts.netloc:
        raise exceptions.MissingSchema(f"{text!r} is no whole URL; did you mean https://{text}?")
    if parts.scheme.lower() not in ("http", "https"):
        raise exceptions.InvalidSchema(f"only http and https are there, and not {parts.scheme}")
    query = parts.query
    if params:
        more = params if isinstance(params, str) else (
            params.decode() if isinstance(params, bytes) else urllib.parse.urlencode(list(_pairs(params))))
        query = f"{query}&{more}" if query else more
    quoted = "!#$%&'()*+,/:;=?@[]~"
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, urllib.parse.quote(parts.path or "/", quoted),
                                    urllib.parse.quote(query, quoted), ""))


def _form_or_bytes(data):
    from membrane._net import body_of
    if isinstance(data, str):
        return data.encode(), "application/x-www-form-urlencoded"
    if hasattr(data, "items") or (isinstance(data, (list, tuple)) and all(isinstance(p, (list, tuple)) for p in data)):
        return urllib.parse.urlencode(list(_pairs(data))).encode(), "application/x-www-form-urlencoded"
    return body_of(data), None


def _multipart(data, files):
    """RFC 7578: the fields of a form, and files."""
    from membrane._net import body_of
    boundary = os.urandom(16).hex()
    pieces = []

    def add(disposition, kind, body):
        head = f'--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n'
        if kind:
            head += f"Content-Type: {kind}\r\n"
        pieces.append(head.encode() + b"\r\n" + body + b"\r\n")

    def quoted(name):
        return str(name).replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")

    for name, value in _pairs(data or {}):
        add(f'name="{quoted(name)}"', None, value if isinstance(value, bytes) else str(value).encode())
    for name, file in files.items() if hasattr(files, "items") else files:
        filename, kind = os.path.basename(getattr(file, "name", "") or str(name)), None
        if isinstance(file, tuple):
            filename, file, kind = (*file[:3], None)[:3]
        where = f'name="{quoted(name)}"' + (f'; filename="{quoted(filename)}"' if filename else "")
        add(where, kind, body_of(file))
    return b"".join(pieces) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class Response:
    """What a server answered. `content` is bytes, `text` a str, `json()` the value in it."""

    def __init__(self):
        self.status_code = None
        self.url = None
        self.headers = CaseInsensitiveDict()
        self.request = None
        self.reason = ""
        self.encoding = None
        self.history = []
        self.elapsed = None
        self.cookies = cookies.RequestsCookieJar()  # the host does not expose Set-Cookie
        self._content = b""

    @classmethod
    def _of(cls, answer, request, elapsed):
        made = cls()
        made.status_code, made.url, made._content = answer.status, answer.url, answer.body
        made.headers = CaseInsensitiveDict(answer.headers)
        made.request, made.elapsed = request, elapsed
        made.encoding = _charset_of(made.headers.get("content-type", ""))
        try:
            made.reason = http.HTTPStatus(answer.status).phrase
        except ValueError:
            pass
        return made

    @property
    def content(self):
        return self._content

    @property
    def apparent_encoding(self):
        try:
            self._content.decode()
            return "utf-8"
        except UnicodeDecodeError:
            return "latin-1"

    @property
    def text(self):
        try:
            return self._content.decode(self.encoding or self.apparent_encoding, errors="replace")
        except LookupError:
            return self._content.decode(errors="replace")

    def json(self, **options):
        text = self.text if self.encoding else self._content.decode("utf-8-sig", errors="replace")
        try:
            return json.loads(text, **options)
        except json.JSONDecodeError as error:
            raise exceptions.JSONDecodeError(error.msg, error.doc, error.pos, response=self) from None

    @property
    def ok(self):
        return self.status_code < 400

    def __bool__(self):
        return self.ok

    @property
    def is_redirect(self):
        return self.status_code in _REDIRECTS and "location" in self.headers

    @property
    def is_permanent_redirect(self):
        return self.status_code in (301, 308) and "location" in self.headers

    @property
    def links(self):
        """The headers Link (RFC 8288), by `rel`."""
        found = {}
        for part in self.headers.get("link", "").split(", <"):
            url, *options = part.strip(" <").split(";")
            link = {"url": url.strip("<> ")}
            for option in options:
                name, _, value = option.partition("=")
                link[name.strip()] = value.strip(" \"'")
            if link["url"]:
                found[link.get("rel", link["url"])] = link
        return found

    def raise_for_status(self):
        if not self.ok:
            side = "Client" if self.status_code < 500 else "Server"
            raise exceptions.HTTPError(f"{self.status_code} {side} Error: {self.reason} for url: {self.url}",
                                       request=self.request, response=self)

    def iter_content(self, chunk_size=1, decode_unicode=False):
        whole = self.text if decode_unicode else self._content
        for at in range(0, len(whole), chunk_size or max(len(whole), 1)):
            yield whole[at:at + chunk_size] if chunk_size else whole

    __iter__ = lambda self: self.iter_content(128)  # noqa: E731

    def iter_lines(self, chunk_size=512, decode_unicode=False, delimiter=None):
        whole = self.text if decode_unicode else self._content
        yield from whole.split(delimiter) if delimiter else whole.splitlines()

    @property
    def raw(self):
        import io
        return io.BytesIO(self._content)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __repr__(self):
        return f"<Response [{self.status_code}]>"


def _charset_of(content_type):
    kind, *options = content_type.split(";")
    for option in options:
        name, _, value = option.partition("=")
        if name.strip().lower() == "charset":
            return value.strip(" \"'")
    if kind.strip().lower() == "application/json":
        return "utf-8"
    return None
