"""urllib.request over the capability http: no sockets, no TLS, no redirects of its own."""

import io
import json

from membrane import _door

# What belongs to the connection, which the host makes.
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
    sent = {}
    for name, value in headers:
        if name.lower() not in _OF_THE_CONNECTION:
            sent[name] = value
    answer = _door.call("http.exchange", [method, url, json.dumps(sent) if sent else "", _door.bytes_to_json(body)])
    return Answer(json.loads(answer))


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
    from membrane import _libraries, _wire
    _wire.install()
    _libraries.install()
