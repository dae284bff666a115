"""The errors and warnings that programs name. Requests here raise those of requests."""


class HTTPError(Exception):
    pass


class HTTPWarning(Warning):
    pass


class SecurityWarning(HTTPWarning):
    pass


class InsecureRequestWarning(SecurityWarning):
    pass


class NotOpenSSLWarning(SecurityWarning):
    pass


class DependencyWarning(HTTPWarning):
    pass


class PoolError(HTTPError):
    pass


class RequestError(PoolError):
    pass


class MaxRetryError(RequestError):
    pass


class ProtocolError(HTTPError):
    pass


class SSLError(HTTPError):
    pass


class ProxyError(HTTPError):
    pass


class TimeoutError(HTTPError):
    pass


class ReadTimeoutError(TimeoutError, RequestError):
    pass


class ConnectTimeoutError(TimeoutError):
    pass


class NewConnectionError(ConnectTimeoutError, PoolError):
    pass


class ResponseError(HTTPError):
    pass


class LocationParseError(ValueError, HTTPError):
    pass
