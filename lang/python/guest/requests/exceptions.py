"""Why a request failed."""

import json


class RequestException(IOError):
    """Any failure. `request` and `response` are there where there were any; `grant` is what would allow a denied one."""

    grant = ""

    def __init__(self, *arguments, request=None, response=None):
        super().__init__(*arguments)
        self.request, self.response = request, response


class HTTPError(RequestException):
    """A status of 400 or more, for raise_for_status()."""


class ConnectionError(RequestException):
    """No answer came."""


class AccessDenied(ConnectionError, PermissionError):
    """No grant of the policy allows the request."""


class Timeout(RequestException):
    """The server did not answer in time."""


class ConnectTimeout(ConnectionError, Timeout):
    pass


class ReadTimeout(Timeout):
    pass


class URLRequired(RequestException):
    pass


class TooManyRedirects(RequestException):
    pass


class MissingSchema(RequestException, ValueError):
    """The URL has no http:// or https://."""


class InvalidSchema(RequestException, ValueError):
    pass


class InvalidURL(RequestException, ValueError):
    pass


class InvalidHeader(RequestException, ValueError):
    pass


class InvalidJSONError(RequestException):
    pass


class JSONDecodeError(InvalidJSONError, json.JSONDecodeError):
    """The body is not JSON."""

    def __init__(self, *arguments, **options):
        json.JSONDecodeError.__init__(self, *arguments)
        self.request, self.response = None, options.get("response")

    def __reduce__(self):
        return json.JSONDecodeError.__reduce__(self)


class ChunkedEncodingError(RequestException):
    pass


class ContentDecodingError(RequestException):
    pass


class SSLError(ConnectionError):
    pass


class ProxyError(ConnectionError):
    pass
