"""Retry, for requests.adapters.HTTPAdapter: retries are the host's, so what it asks for is kept, and nothing follows from it."""


class Retry:
    DEFAULT_ALLOWED_METHODS = frozenset(["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"])
    RETRY_AFTER_STATUS_CODES = frozenset([413, 429, 503])
    DEFAULT_REMOVE_HEADERS_ON_REDIRECT = frozenset(["Cookie", "Authorization", "Proxy-Authorization"])
    DEFAULT_BACKOFF_MAX = 120

    def __init__(self, total=10, connect=None, read=None, redirect=None, status=None, other=None, allowed_methods=DEFAULT_ALLOWED_METHODS,
                 status_forcelist=None, backoff_factor=0, backoff_max=DEFAULT_BACKOFF_MAX, raise_on_redirect=True, raise_on_status=True,
                 history=None, respect_retry_after_header=True, remove_headers_on_redirect=DEFAULT_REMOVE_HEADERS_ON_REDIRECT,
                 backoff_jitter=0.0, retry_after_max=21600):
        self.total, self.connect, self.read, self.redirect, self.status, self.other = total, connect, read, redirect, status, other
        self.allowed_methods, self.status_forcelist = allowed_methods, status_forcelist or set()
        self.backoff_factor, self.backoff_max, self.backoff_jitter = backoff_factor, backoff_max, backoff_jitter
        self.raise_on_redirect, self.raise_on_status, self.history = raise_on_redirect, raise_on_status, history or ()
        self.respect_retry_after_header, self.retry_after_max = respect_retry_after_header, retry_after_max
        self.remove_headers_on_redirect = frozenset(header.lower() for header in remove_headers_on_redirect)

    def new(self, **changed):
        return type(self)(**{**vars(self), **changed})

    @classmethod
    def from_int(cls, retries, redirect=True, default=None):
        if isinstance(retries, Retry):
            return retries
        return cls(default if retries is None else retries, redirect=None if redirect else False)

    def __repr__(self):
        return (f"Retry(total={self.total}, connect={self.connect}, read={self.read}, redirect={self.redirect}, "
                f"status={self.status})")
