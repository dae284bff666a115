"""Packages that are changed when they are first imported: those that would open connections of their own ask the capability,
one that works in processes has a lock for this one, one that duplicates descriptors does without, one that is built
without some of its formats says what to use, and one that shows values does so here. For two there is a part that programs ask for, where the package is not."""

import functools
import os
import threading

from membrane import _door, _imports, _net, _wire

_MOST_REDIRECTS = 100  # whose answers a transport remembers


def install():
    for name, change in _CHANGES.items():
        _imports.when_imported(name, change)
    for name, directory in (("urllib3", "_urllib3"), ("IPython", "_ipython")):
        _imports.stand_in(name, os.path.join(os.path.dirname(os.path.abspath(__file__)), directory))


# --- httpx ----------------------------------------------------------------------------------------------------------


def _change_httpx(module):
    """The two transports that clients are made with: httpx._transports.default."""
    import httpx._exceptions as exceptions
    from httpx._models import Response
    from httpx._transports.base import AsyncBaseTransport, BaseTransport

    class AccessDenied(exceptions.ConnectError, PermissionError):
        """No grant of the policy allows the request; the text names the one that would."""

    class TimedOut(exceptions.ReadTimeout, TimeoutError):
        """The server did not answer in time."""

    for kind in (AccessDenied, TimedOut):
        kind.__module__, kind.__qualname__ = "httpx", kind.__name__

    class Transport:
        def __init__(self, verify=True, cert=None, trust_env=True, http1=True, http2=False, limits=None, proxy=None,
                     uds=None, local_address=None, retries=0, socket_options=None):
            refused = {"verify": verify is False, "cert": cert, "proxy": proxy, "uds": uds,
                       "local_address": local_address}
            for name, is_asked in refused.items():
                if is_asked:
                    raise NotImplementedError(f"{name} is not supported: the host makes the connection")
            self._answers = {}  # answers after redirects that the host has followed, by their URL

        def _respond(self, request, body):
            url = str(request.url).partition("#")[0]
            answer = self._answers.pop(url, None) if request.method in ("GET", "HEAD") else None
            if answer is None:
                answer = self._exchange(request, url, body)
            if answer.url != url:  # the client decides whether to follow; if it does, the answer is available
                if len(self._answers) == _MOST_REDIRECTS:
                    self._answers.clear()
                self._answers[answer.url] = answer
                return Response(303, headers={"location": answer.url}, content=b"", request=request)
            headers = [(name, value) for name, value in answer.headers.items() if name not in _wire.OF_THE_BODY]
            return Response(answer.status, headers=headers, content=answer.body, request=request)

        @staticmethod
        def _exchange(request, url, body):
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
            try:
                return _net.exchange(request.method, url, headers, body)
            except PermissionError as error:
                raise AccessDenied(str(error), request=request) from None
            except TimeoutError as error:
                raise TimedOut(str(error), request=request) from None
            except _door.Error as error:
                raise exceptions.ConnectError(str(error), request=request) from None

    class HTTPTransport(Transport, BaseTransport):
        """Requests by the capability `http`: redirects, TLS and compression are the host's."""

        def handle_request(self, request):
            return self._respond(request, request.read())

    class AsyncHTTPTransport(Transport, AsyncBaseTransport):
        """The same for AsyncClient. A request is made at once: nothing else runs meanwhile."""

        async def handle_async_request(self, request):
            return self._respond(request, await request.aread())

    for kind in (HTTPTransport, AsyncHTTPTransport):
        kind.__module__, kind.__qualname__ = module.__name__, kind.__name__
    module.HTTPTransport, module.AsyncHTTPTransport = HTTPTransport, AsyncHTTPTransport


# --- urllib3 --------------------------------------------------------------------------------------------------------


def _change_urllib3(module):
    """The connections of its pools: urllib3.connection."""

    def connect(self):
        if getattr(self, "_tunnel_host", None) or getattr(self, "proxy", None):
            raise NotImplementedError("a proxy is not supported: the host makes the connection")
        self.sock = _wire.wire_to("http", self.host, self.port)
        self.is_verified = False

    def connect_by_tls(self):
        if str(getattr(self, "cert_reqs", None)) in ("CERT_NONE", "0") or self.cert_file:
            raise NotImplementedError("certificates are the host's: it verifies them, and has none of a client's")
        connect(self)
        self.sock = _wire.wire_to("https", self.host, self.port)
        self.is_verified = True

    module.HTTPConnection.connect = connect
    module.HTTPSConnection.connect = connect_by_tls
    module.HTTPConnection.is_connected = property(lambda self: self.sock is not None)


# --- tqdm -----------------------------------------------------------------------------------------------------------


def _change_tqdm(module):
    """tqdm.std: process_map() takes the lock between processes, which is not there."""
    module.TqdmDefaultWriteLock.mp_lock = threading.RLock()


# --- pytest ---------------------------------------------------------------------------------------------------------

_PYTEST_OPTIONS = ("--capture=sys", "-p", "no:faulthandler")  # other captures duplicate descriptors


def _change_pytest(module):
    """_pytest.config: what a program asks for comes after the options that it needs here, and counts."""
    parse = module.Config.parse

    @functools.wraps(parse)
    def parse_with_ours(self, args, *more, **options):
        return parse(self, [*_PYTEST_OPTIONS, *args], *more, **options)

    module.Config.parse = parse_with_ours


# --- pandas ---------------------------------------------------------------------------------------------------------


def _change_pandas(module):
    """pandas.core.dtypes.common: int as a dtype has 64 bits, as on other machines; numpy's has 32 here."""
    pandas_dtype = module.pandas_dtype

    @functools.wraps(pandas_dtype)
    def with_int64(dtype):
        is_int = dtype is int or (type(dtype) is str and dtype == "int")
        return pandas_dtype("int64" if is_int else dtype)

    module.pandas_dtype = with_int64


# --- Pillow ---------------------------------------------------------------------------------------------------------

_FORMATS = {"jpeg": "JPEG", "jpeg2k": "JPEG 2000", "libtiff": "compressed TIFF", "webp": "WebP", "avif": "AVIF"}  # not built in
_SAVE_AS = "Save as PNG, GIF, BMP or TIFF without compression"


def _change_pillow(module):
    """PIL.Image: what reads or writes a format that is not built in."""
    for kind, use in (("decoder", "Convert the image to PNG before the program reads it"), ("encoder", _SAVE_AS)):
        name = f"_get{kind}"
        setattr(module, name, _explaining(getattr(module, name), use))


def _explaining(get, use):
    @functools.wraps(get)
    def get_or_explain(mode, name, *more):
        try:
            return get(mode, name, *more)
        except OSError as error:
            if name not in _FORMATS:
                raise
            raise OSError(f"{error}: Pillow has no {_FORMATS[name]} here. {use}") from None

    return get_or_explain


def _refuse_saving(module):
    """The plugins of WebP and AVIF: without their libraries they leave the extension unknown."""
    if module.SUPPORTED:
        return
    name = module.__name__.removeprefix("PIL.").removesuffix("ImagePlugin").lower()

    def refuse(*_):
        raise OSError(f"encoder {name} not available: Pillow has no {_FORMATS[name]} here. {_SAVE_AS}")

    module.Image.register_save(name.upper(), refuse)
    module.Image.register_save_all(name.upper(), refuse)
    module.Image.register_extension(name.upper(), f".{name}")


def _change_fonts(module):
    """PIL.ImageFont: fonts of files need FreeType, which is not built in."""
    if hasattr(module.core, "ex"):
        module.core.ex = ImportError("Pillow has no FreeType here. Use ImageFont.load_default() without a size, or matplotlib, "
                                     "whose text has any font and size")


# --- IPython --------------------------------------------------------------------------------------------------------


def _change_ipython(module):
    """IPython.core.display_functions: without a shell of its own it would print what a cell can show."""
    from membrane._ipython.display import display
    module.display = display


_CHANGES = {"IPython.core.display_functions": _change_ipython, "PIL.AvifImagePlugin": _refuse_saving, "PIL.Image": _change_pillow,
            "PIL.ImageFont": _change_fonts, "PIL.WebPImagePlugin": _refuse_saving, "_pytest.config": _change_pytest,
            "pandas.core.dtypes.common": _change_pandas, "httpx._transports.default": _change_httpx, "tqdm.std": _change_tqdm, "urllib3.connection": _change_urllib3}
