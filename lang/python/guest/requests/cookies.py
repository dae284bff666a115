"""Cookies that a program sends. The host shows no `Set-Cookie`, so answers bring none: a jar has what the program put there."""

import http.cookiejar
import urllib.request
from collections.abc import MutableMapping


class CookieConflictError(RuntimeError):
    """Several cookies have the name."""


def create_cookie(name, value, **more):
    """A cookie for every host, unless `domain` or `path` says otherwise."""
    given = {"version": 0, "port": None, "domain": "", "path": "/", "secure": False, "expires": None, "discard": True, "comment": None,
             "comment_url": None, "rest": {"HttpOnly": None}, "rfc2109": False}
    if unknown := set(more) - set(given):
        raise TypeError(f"create_cookie() got unexpected keyword arguments: {sorted(unknown)}")
    given |= more
    return http.cookiejar.Cookie(name=name, value=value, port_specified=bool(given["port"]), domain_specified=bool(given["domain"]),
                                 domain_initial_dot=given["domain"].startswith("."), path_specified=bool(given["path"]), **given)


class RequestsCookieJar(http.cookiejar.CookieJar, MutableMapping):
    """A jar that is a dict of names, too. Iterating gives the cookies."""

    def set(self, name, value, **more):
        if value is None:
            self._remove(name, more.get("domain"), more.get("path"))
            return None
        cookie = value if isinstance(value, http.cookiejar.Cookie) else create_cookie(name, str(value), **more)
        self.set_cookie(cookie)
        return cookie

    def get(self, name, default=None, domain=None, path=None):
        found = self._find(name, domain, path)
        if len(found) > 1:
            raise CookieConflictError(f"There are multiple cookies with name, {name!r}")
        return found[0].value if found else default

    def get_dict(self, domain=None, path=None):
        return {cookie.name: cookie.value for cookie in self if domain in (None, cookie.domain) and path in (None, cookie.path)}

    def update(self, other=(), **more):
        if isinstance(other, http.cookiejar.CookieJar):
            for cookie in other:
                self.set_cookie(cookie)
        else:
            super().update(other, **more)

    def copy(self):
        made = type(self)()
        made.update(self)
        return made

    def keys(self):
        return [cookie.name for cookie in self]

    def values(self):
        return [cookie.value for cookie in self]

    def items(self):
        return [(cookie.name, cookie.value) for cookie in self]

    iterkeys, itervalues, iteritems = keys, values, items

    def list_domains(self):
        return list(dict.fromkeys(cookie.domain for cookie in self))

    def list_paths(self):
        return list(dict.fromkeys(cookie.path for cookie in self))

    def __contains__(self, name):
        return any(cookie is name or cookie.name == name for cookie in self)

    def __getitem__(self, name):
        nothing = object()
        value = self.get(name, nothing)
        if value is nothing:
            raise KeyError(name)
        return value

    def __setitem__(self, name, value):
        self.set(name, value)

    def __delitem__(self, name):
        if not self._remove(name, None, None):
            raise KeyError(name)

    def _find(self, name, domain, path):
        return [cookie for cookie in self
                if cookie.name == name and domain in (None, cookie.domain) and path in (None, cookie.path)]

    def _remove(self, name, domain, path):
        found = self._find(name, domain, path)
        for cookie in found:
            self.clear(cookie.domain, cookie.path, cookie.name)
        return bool(found)


def cookiejar_from_dict(cookie_dict, cookiejar=None, overwrite=True):
    jar = RequestsCookieJar() if cookiejar is None else cookiejar
    have = {cookie.name for cookie in jar}
    for name, value in (cookie_dict or {}).items():
        if overwrite or name not in have:
            jar.set_cookie(create_cookie(name, str(value)))
    return jar


def merged(*all_given):
    """A jar of all: dicts and jars, the later ones before the earlier."""
    jar = RequestsCookieJar()
    for given in all_given:
        if given:
            jar.update(given)
    return jar


def header_of(jar, url):
    """The value of `Cookie` for a request; None for no cookie."""
    request = urllib.request.Request(url)
    jar.add_cookie_header(request)
    return request.get_header("Cookie")
