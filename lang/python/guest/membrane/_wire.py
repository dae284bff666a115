"""What stands in for a connection in http.client, and in libraries that are made of it: it takes the bytes of a request
as a server would, asks the capability, and gives the bytes of the answer.
"""

import io

from membrane import _net

# Headers of the body as the host got it, before decompression, and of the host's connection.
OF_THE_BODY = {"content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive"}


class Wire:
    """One connection to `base` ("https://example.org:8443"), in the shape of a socket. Each answer closes it."""

    def __init__(self, base):
        self._base, self._sent = base, bytearray()

    def sendall(self, data, *_):
        self._sent += data

    def send(self, data, *_):
        self._sent += data
        return len(data)

    def makefile(self, mode="rb", *_, **__):
        request, self._sent = bytes(self._sent), bytearray()
        return io.BufferedReader(_Answer(self._base, request))

    def _nothing(self, *_, **__):
        """There is no socket below."""

    settimeout = setsockopt = setblocking = shutdown = close = _nothing

    def gettimeout(self):
        return None

    def fileno(self):
        raise OSError("this connection has no socket: the host makes it")


class _Answer(io.RawIOBase):
    """The bytes of the answer. It is asked for when they are first read: whoever opened this is whole by then, and can close it."""

    def __init__(self, base, request):
        self._asked, self._bytes = (base, request), None

    def readable(self):
        return True

    def readinto(self, buffer):
        if self._bytes is None:
            self._bytes = io.BytesIO()
            self._bytes = io.BytesIO(_answer(*self._asked))
        return self._bytes.readinto(buffer)


def _answer(base, request):
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    target = rest.rpartition(" ")[0]
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
    if any(name.lower() == "transfer-encoding" for name, _ in headers):
        body = _of_chunks(body)
    url = target if "://" in target else base + target
    answer = _net.exchange(method, url, headers, body)
    length = len(answer.body)
    if method == "HEAD":
        length = answer.headers.get("content-length", 0)
    shown = [f"HTTP/1.1 {answer.status} {_net.reason_of(answer.status)}", f"content-length: {length}",
            "connection: close"]
    shown += [f"{name}: {value}" for name, value in answer.headers.items() if name not in OF_THE_BODY]
    return "\r\n".join((*shown, "", "")).encode("latin-1", "replace") + answer.body


def _of_chunks(data):
    body, at = bytearray(), 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end].partition(b";")[0], 16)
        if size == 0:
            return bytes(body)
        body += data[end + 2:end + 2 + size]
        at = end + 2 + size + 2


def install():
    """http.client connects by wires from now on."""
    import http.client

    def connect(self):
        if self._tunnel_host:
            raise NotImplementedError("a proxy is not supported: the host makes the connection")
        self.sock = wire_to("http", self.host, self.port)

    def connect_by_tls(self):
        connect(self)
        self.sock = wire_to("https", self.host, self.port)

    http.client.HTTPConnection.connect = connect
    if hasattr(http.client, "HTTPSConnection"):
        http.client.HTTPSConnection.connect = connect_by_tls


def wire_to(scheme, host, port):
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    is_usual = port in (None, 443 if scheme == "https" else 80)
    return Wire(f"{scheme}://{host}" if is_usual else f"{scheme}://{host}:{port}")
