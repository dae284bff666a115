"""urllib.request over the capability http: no sockets, no TLS, no redirects of its own.

A thread that makes a request is suspended until the others have come as far; then all of them are made at once.
"""

import io
import json

from membrane import _door, _resumable, _scheduler

# Headers of the connection, which the host makes.
_OF_THE_CONNECTION = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "keep-alive",
                      "te", "trailer", "upgrade", "proxy-connection", "expect"}


class Answer:
    """What a server answered: `status`, `url` (behind redirects), `headers` (names in lower case), `body` (bytes)."""

    def __init__(self, fields):
        self.status = fields["status"]
        self.url = fields["url"]
        self.headers = fields["headers"]
        self.body = _door.bytes_of_json({"base64": fields["body_base64"]} if "body_base64" in fields
                                        else fields["body"])


def exchange(method, url, headers, body):
    """One request, whatever the status of its answer. Headers are pairs; a body is bytes."""
    global _given
    sent = {}
    for name, value in headers:
        if name.lower() not in _OF_THE_CONNECTION:
            sent[name] = value
    request = [method, url, json.dumps(sent) if sent else "", _door.bytes_to_json(body)]
    if _is_rehearsal:
        raise _Asked(request)
    if _given is not None and _given[0] == request:
        (_, answer), _given = _given, None
    else:
        answer = _exchange_one(request)
    if isinstance(answer, Exception):
        raise answer
    return Answer(answer)


def _exchange_one(request):
    return json.loads(_door.call("http.exchange", request))


# --- requests of threads ----------------------------------------------------------------------------------------------


class _Asked(BaseException):
    """Ends the rehearsal of a call where it makes its request."""


_is_rehearsal = False
_given = None  # (a request, its answer): for the next call of exchange()


def _in_steps(function):
    """The function, which makes a request, for a thread. It is called twice: up to the request, and with the answer. Up
    to there it does nothing but look at its arguments."""
    def steps(*arguments, **options):
        global _given
        request = _request_of(function, arguments, options)
        if request is None:
            return function(*arguments, **options)
        wait = _scheduler.Wait(request=request)
        yield wait
        _given = request, wait.answer
        try:
            return function(*arguments, **options)
        finally:
            _given = None

    return steps


def _request_of(function, arguments, options):
    """What the call would ask for; None where it fails before, or would use up an argument that can be read once."""
    global _is_rehearsal
    if any(hasattr(value, "read") or hasattr(value, "__next__") for value in (*arguments, *options.values())) or (
            options.get("files")):
        return None
    _is_rehearsal = True
    try:
        function(*arguments, **options)
    except _Asked as asked:
        return asked.args[0]
    except Exception:
        return None
    finally:
        _is_rehearsal = False
    return None


def send_requests(requests):
    """The answers, or the errors, of several requests, which the host makes at once."""
    try:
        if len(requests) == 1:
            return [_exchange_one(requests[0])]
        answers = json.loads(_door.call("http.get_many", [json.dumps([_to_json(request) for request in requests])]))
    except _door.Error as error:
        return [error] * len(requests)
    return [_door.error_of(answer, "http.get_many") if "errno" in answer else answer for answer in answers]


def _to_json(request):
    method, url, headers, body = request
    whole = {"method": method, "url": url}
    if headers:
        whole["headers"] = json.loads(headers)
    if isinstance(body, dict):
        whole["body_base64"] = body["base64"]
    elif body:
        whole["body"] = body
    return whole


def reason_of(status):
    import http.client
    return http.client.responses.get(status, "")


def body_of(data):
    """The bytes of what urllib and requests take for a body: bytes, a text, a file, or pieces."""
    if data is None:
        return b""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if hasattr(data, "read"):
        return body_of(data.read())
    return b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in data)


_installed = False


def install():
    """Puts the capability behind urlopen() and every opener that is made from now on."""
    global _installed
    if _installed:
        return
    _installed = True
    import http.client
    import urllib.error
    import urllib.request
    import urllib.response

    class AccessDenied(urllib.error.URLError, PermissionError):
        """No grant of the policy allows the request. `reason` names the one that would."""

    class TimedOut(urllib.error.URLError, TimeoutError):
        """The server did not answer in time."""

    for kind in (AccessDenied, TimedOut):
        kind.__module__, kind.__qualname__ = "urllib.error", kind.__name__

    class Response(urllib.response.addinfourl):
        def __init__(self, answer):
            headers = http.client.HTTPMessage()
            for name, value in answer.headers.items():
                headers[name] = value
            super().__init__(io.BytesIO(answer.body), headers, answer.url, answer.status)
            self.reason = self.msg = reason_of(answer.status)

        def getheader(self, name, default=None):
            return self.headers.get(name, default)

        def getheaders(self):
            return self.headers.items()

    class HTTPHandler(urllib.request.BaseHandler):
        """http: and https: URLs, by the grants of the policy. A timeout is the grant's own."""

        def __init__(self, debuglevel=None, context=None, check_hostname=None):
            pass

        def http_request(self, request):
            if request.data is not None and not request.has_header("Content-type"):
                request.add_unredirected_header("Content-type", "application/x-www-form-urlencoded")
            for name, value in self.parent.addheaders:
                if not request.has_header(name.capitalize()):
                    request.add_unredirected_header(name.capitalize(), value)
            return request

        def http_open(self, request):
            try:
                return Response(exchange(request.get_method(), request.full_url.partition("#")[0],
                                         request.header_items(), body_of(request.data)))
            except PermissionError as error:
                raise AccessDenied(error) from None
            except TimeoutError as error:
                raise TimedOut(error) from None
            except _door.Error as error:
                raise urllib.error.URLError(error) from None

        https_request = http_request
        https_open = http_open

    urllib.request.HTTPHandler = HTTPHandler
    urllib.request.HTTPSHandler = HTTPHandler
    urllib.request._opener = None
    _scheduler.send_requests = send_requests
    import requests
    session = requests.Session
    words = ("request", "get", "options", "head", "post", "put", "patch", "delete")
    for function in (urllib.request.urlopen, urllib.request.OpenerDirector.open,
                     *(getattr(place, word) for place in (requests, session) for word in words)):
        _resumable.waits[function] = _in_steps(function)
    from membrane import _libraries, _wire
    _wire.install()
    _libraries.install()
