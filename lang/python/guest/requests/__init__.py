"""HTTP in the shape of the library that programs know by this name, over the capability `http`.

    import requests
    answer = requests.get("https://example.org/items", params={"page": 2})
    answer.raise_for_status()
    items = answer.json()

Redirects, compression, TLS and addresses are the host's. Cookies are sent, and answers bring none: the host
shows no `Set-Cookie`. Not there: proxies, client certificates, `verify=False`,
streams that come while they are read, and hooks. What would have to be done otherwise than asked raises
NotImplementedError. A `timeout` cannot be longer than the grant's, which holds in any case.
"""

from . import adapters, auth, cookies, exceptions, structures
from .exceptions import (ConnectionError, ConnectTimeout, HTTPError, JSONDecodeError, ReadTimeout, RequestException, Timeout,
                         TooManyRedirects, URLRequired)
from .models import PreparedRequest, Request, Response
from .sessions import Session, session
from .status_codes import codes

__version__ = "2.32.0"  # the version whose interface this follows
__all__ = ["ConnectTimeout", "ConnectionError", "HTTPError", "JSONDecodeError", "PreparedRequest", "ReadTimeout", "Request",
           "RequestException", "Response", "Session", "Timeout", "TooManyRedirects", "URLRequired", "adapters", "auth",
           "codes", "cookies", "delete", "exceptions", "get", "head", "options", "patch", "post", "put", "request", "session",
           "structures"]


def request(method, url, **options):
    """Sends a request and gives its Response. Options: params, data, json, files, headers, auth, cookies, timeout."""
    with Session() as alone:
        return alone.request(method, url, **options)


def get(url, params=None, **options):
    return request("GET", url, params=params, **options)


def options(url, **options):
    return request("OPTIONS", url, **options)


def head(url, **options):
    return request("HEAD", url, **options)


def post(url, data=None, json=None, **options):
    return request("POST", url, data=data, json=json, **options)


def put(url, data=None, **options):
    return request("PUT", url, data=data, **options)


def patch(url, data=None, **options):
    return request("PATCH", url, data=data, **options)


def delete(url, **options):
    return request("DELETE", url, **options)


def __getattr__(name):
    if name == "packages":  # on demand: a package may have been installed since
        import importlib
        return importlib.import_module("requests.packages")
    raise AttributeError(f"module 'requests' has no attribute {name!r}")
