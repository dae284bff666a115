"""The names of Python's ssl, for libraries that import it. The host makes TLS connections, by the grants of the policy,
and always verifies certificates: a context can be made and set up here, and connects nothing.
"""

import enum
import os

_WHY = ("a program makes no TLS connections of its own: the host does, for urllib.request, requests, httpx and "
        "membrane.http, and verifies certificates")

OPENSSL_VERSION = "OpenSSL 3.0.0 (the names alone: connections are the host's)"
OPENSSL_VERSION_INFO = (3, 0, 0, 0, 0)
OPENSSL_VERSION_NUMBER = 0x30000000
HAS_SNI = HAS_ALPN = HAS_ECDH = HAS_TLSv1_2 = HAS_TLSv1_3 = True
HAS_SSLv2 = HAS_SSLv3 = HAS_TLSv1 = HAS_TLSv1_1 = HAS_NPN = HAS_PSK = HAS_NEVER_CHECK_COMMON_NAME = False
CHANNEL_BINDING_TYPES = []


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED = -2
    SSLv3 = 768
    TLSv1 = 769
    TLSv1_1 = 770
    TLSv1_2 = 771
    TLSv1_3 = 772
    MAXIMUM_SUPPORTED = -1


class VerifyMode(enum.IntEnum):
    CERT_NONE = 0
    CERT_OPTIONAL = 1
    CERT_REQUIRED = 2


class VerifyFlags(enum.IntFlag):
    VERIFY_DEFAULT = 0
    VERIFY_CRL_CHECK_LEAF = 4
    VERIFY_CRL_CHECK_CHAIN = 12
    VERIFY_X509_STRICT = 32
    VERIFY_X509_PARTIAL_CHAIN = 0x80000
    VERIFY_X509_TRUSTED_FIRST = 0x8000


class Options(enum.IntFlag):
    OP_ALL = 0x80000050
    OP_NO_SSLv2 = 0
    OP_NO_SSLv3 = 0x2000000
    OP_NO_TLSv1 = 0x4000000
    OP_NO_TLSv1_1 = 0x10000000
    OP_NO_TLSv1_2 = 0x8000000
    OP_NO_TLSv1_3 = 0x20000000
    OP_NO_COMPRESSION = 0x20000
    OP_NO_TICKET = 0x4000
    OP_NO_RENEGOTIATION = 0x40000000
    OP_CIPHER_SERVER_PREFERENCE = 0x400000
    OP_SINGLE_DH_USE = 0
    OP_SINGLE_ECDH_USE = 0
    OP_ENABLE_MIDDLEBOX_COMPAT = 0x100000
    OP_IGNORE_UNEXPECTED_EOF = 0x80
    OP_LEGACY_SERVER_CONNECT = 4


class Purpose(enum.Enum):
    SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
    CLIENT_AUTH = "1.3.6.1.5.5.7.3.2"


class _SSLMethod(enum.IntEnum):
    PROTOCOL_SSLv23 = 2
    PROTOCOL_TLS = 2
    PROTOCOL_TLSv1 = 3
    PROTOCOL_TLSv1_1 = 4
    PROTOCOL_TLSv1_2 = 5
    PROTOCOL_TLS_CLIENT = 16
    PROTOCOL_TLS_SERVER = 17


class SSLErrorNumber(enum.IntEnum):
    SSL_ERROR_SSL = 1
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_WANT_WRITE = 3
    SSL_ERROR_WANT_X509_LOOKUP = 4
    SSL_ERROR_SYSCALL = 5
    SSL_ERROR_ZERO_RETURN = 6
    SSL_ERROR_WANT_CONNECT = 7
    SSL_ERROR_EOF = 8


for _kind in (VerifyMode, VerifyFlags, Options, _SSLMethod, SSLErrorNumber):
    globals().update(_kind.__members__)
del _kind


class SSLError(OSError):
    """The error of a program that tries to make a TLS connection."""

    library = reason = None


class SSLZeroReturnError(SSLError):
    pass


class SSLWantReadError(SSLError):
    pass


class SSLWantWriteError(SSLError):
    pass


class SSLSyscallError(SSLError):
    pass


class SSLEOFError(SSLError):
    pass


class SSLCertVerificationError(SSLError, ValueError):
    pass


CertificateError = SSLCertVerificationError


class SSLContext:
    """Keeps what it is given. It connects nothing."""

    sslsocket_class = sslobject_class = None

    def __init__(self, protocol=PROTOCOL_TLS_CLIENT):  # noqa: F821
        self.protocol = protocol
        self.check_hostname = protocol == PROTOCOL_TLS_CLIENT  # noqa: F821
        self.verify_mode = CERT_REQUIRED if self.check_hostname else CERT_NONE  # noqa: F821
        self.verify_flags = VerifyFlags.VERIFY_DEFAULT
        self.options = Options.OP_ALL
        self.minimum_version = TLSVersion.TLSv1_2
        self.maximum_version = TLSVersion.MAXIMUM_SUPPORTED
        self.post_handshake_auth = False
        self.hostname_checks_common_name = False
        self.keylog_filename = self.sni_callback = None

    def load_cert_chain(self, certfile, keyfile=None, password=None):
        raise NotImplementedError("client certificates are not there: " + _WHY)

    def wrap_socket(self, sock, *_, **__):
        raise SSLError(_WHY)

    def wrap_bio(self, *_, **__):
        raise SSLError(_WHY)

    def _nothing(self, *_, **__):
        """The host decides."""

    load_verify_locations = load_default_certs = set_default_verify_paths = set_ciphers = _nothing
    set_alpn_protocols = set_npn_protocols = set_ecdh_curve = load_dh_params = _nothing

    def get_ca_certs(self, binary_form=False):
        return []

    def get_ciphers(self):
        return []

    def cert_store_stats(self):
        return {"x509": 0, "crl": 0, "x509_ca": 0}

    def session_stats(self):
        return {}


class _Refused:
    def __init__(self, *_, **__):
        raise SSLError(_WHY)


class SSLSocket(_Refused):
    """What wrap_socket() would give."""


class SSLObject(_Refused):
    """What wrap_bio() would give."""


class MemoryBIO(_Refused):
    """What an SSLObject would read and write."""


class SSLSession(_Refused):
    """What a connection would be resumed by."""


class DefaultVerifyPaths(tuple):
    cafile = capath = None
    openssl_cafile_env, openssl_capath_env = "SSL_CERT_FILE", "SSL_CERT_DIR"
    openssl_cafile = openssl_capath = ""


def create_default_context(purpose=Purpose.SERVER_AUTH, *, cafile=None, capath=None, cadata=None):
    return SSLContext(PROTOCOL_TLS_CLIENT if purpose == Purpose.SERVER_AUTH else PROTOCOL_TLS_SERVER)  # noqa: F821


def _create_unverified_context(protocol=None, *, cert_reqs=VerifyMode.CERT_NONE, check_hostname=False, **_):
    context = SSLContext()
    context.check_hostname, context.verify_mode = check_hostname, cert_reqs
    return context


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context


def get_default_verify_paths():
    return DefaultVerifyPaths()


def get_server_certificate(*_, **__):
    raise SSLError(_WHY)


def get_protocol_name(protocol_code):
    return _SSLMethod(protocol_code).name


def RAND_bytes(count):
    return os.urandom(count)


def RAND_status():
    return True


def RAND_add(*_):
    pass


def DER_cert_to_PEM_cert(certificate):
    import base64
    import textwrap
    text = base64.b64encode(certificate).decode()
    return "-----BEGIN CERTIFICATE-----\n" + "\n".join(textwrap.wrap(text, 64)) + "\n-----END CERTIFICATE-----\n"


def PEM_cert_to_DER_cert(text):
    import base64
    return base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-----")))


def cert_time_to_seconds(text):
    import calendar
    import time
    return calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y GMT"))
