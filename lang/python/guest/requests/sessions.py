"""Requests that share headers, parameters and who asks."""

import datetime
import time
import urllib.parse

from . import exceptions
from .adapters import HTTPAdapter
from .cookies import RequestsCookieJar
from .cookies import merged as merged_cookies
from .models import Request, Response
from .structures import CaseInsensitiveDict

# Options that may be ignored: the host does what they ask for, or cannot do it at all.
_REFUSED = {
    "verify": lambda value: value is False,
    "cert": lambda value: value is not None,
    "proxies": lambda value: bool(value),
    "hooks": lambda value: bool(value),
}


class Session:
    """`headers`, `params`, `auth` and `cookies` are sent with each of its requests."""

    def __init__(self):
        self.headers = CaseInsensitiveDict()
        self.params = {}
        self.auth = None
        self.verify, self.cert, self.proxies, self.hooks = True, None, {}, {}
        self.cookies = RequestsCookieJar()
        self.max_redirects, self.stream, self.trust_env = 30, False, True
        self.adapters = {}

    def request(self, method, url, params=None, data=None, headers=None, cookies=None, files=None, auth=None, timeout=None,
                allow_redirects=True, proxies=None, hooks=None, stream=None, verify=None, cert=None, json=None):
        asked = {"verify": self.verify if verify is None else verify, "cert": cert or self.cert,
                 "proxies": proxies or self.proxies, "hooks": hooks or self.hooks}
        for name, is_refused in _REFUSED.items():
            if is_refused(asked[name]):
                raise NotImplementedError(f"{name}={asked[name]!r} is not supported: the host makes the connection")
        merged = self.headers.copy()
        merged.update({str(k): v for k, v in (headers or {}).items()})
        prepared = Request(method, url, merged, files, data, _merge(self.params, params), auth or self.auth, json,
                           merged_cookies(self.cookies, cookies)).prepare()
        return self.send(prepared, allow_redirects=allow_redirects)

    def prepare_request(self, request):
        merged = self.headers.copy()
        merged.update(request.headers)
        return Request(request.method, request.url, merged, request.files, request.data,
                       _merge(self.params, request.params), request.auth or self.auth, request.json,
                       merged_cookies(self.cookies, request.cookies)).prepare()

    def send(self, request, allow_redirects=True, **_):
        adapter = self.get_adapter(request.url)
        if type(adapter).send is not HTTPAdapter.send:
            return adapter.send(request, stream=self.stream, verify=self.verify, cert=self.cert, proxies=self.proxies)
        start = time.monotonic()
        answer = self._exchange(request)
        # The host follows redirects as far as the grant allows: the answer after one is not the one requested here.
        if not allow_redirects and _place(answer.url) != _place(request.url):
            raise NotImplementedError("allow_redirects=False is not there: the grant says so, by max_redirects = 0")
        return Response._of(answer, request, datetime.timedelta(seconds=time.monotonic() - start))

    def _exchange(self, request):
        from membrane import _door, _net
        try:
            return _net.exchange(request.method, request.url, request.headers.items(), request.body or b"")
        except PermissionError as error:
            kind, cause = exceptions.AccessDenied, error
        except TimeoutError as error:
            kind, cause = exceptions.ReadTimeout, error
        except _door.ArgumentError as error:
            kind, cause = exceptions.InvalidURL, error
        except _door.Error as error:
            kind = exceptions.TooManyRedirects if error.errno_name == "EQUOTA" else exceptions.ConnectionError
            cause = error
        failure = kind(str(cause), request=request)
        failure.grant = cause.grant
        raise failure from None

    def get(self, url, **options):
        return self.request("GET", url, **options)

    def options(self, url, **options):
        return self.request("OPTIONS", url, **options)

    def head(self, url, **options):
        return self.request("HEAD", url, **options)

    def post(self, url, data=None, json=None, **options):
        return self.request("POST", url, data=data, json=json, **options)

    def put(self, url, data=None, **options):
        return self.request("PUT", url, data=data, **options)

    def patch(self, url, data=None, **options):
        return self.request("PATCH", url, data=data, **options)

    def delete(self, url, **options):
        return self.request("DELETE", url, **options)

    def mount(self, prefix, adapter):
        """Requests to URLs that begin so are the adapter's; of several the longest prefix counts."""
        self.adapters[prefix.lower()] = adapter

    def get_adapter(self, url):
        fitting = [prefix for prefix in self.adapters if url.lower().startswith(prefix)]
        return self.adapters[max(fitting, key=len)] if fitting else HTTPAdapter()

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def _merge(own, given):
    if not own or isinstance(given, (str, bytes)):
        return given or own
    return {**dict(own), **dict(given or {})}


def _place(url):
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, urllib.parse.unquote(parts.path).rstrip("/"), urllib.parse.unquote(parts.query)


def session():
    return Session()
