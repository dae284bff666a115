"""What sessions mount: `session.mount("https://", HTTPAdapter(max_retries=3))`.

Pools of connections and retries are the host's, so what an HTTPAdapter asks for is kept, and nothing follows from it. One
whose class has a send() of its own is asked for the answers below its prefix.
"""

DEFAULT_POOLSIZE = 10
DEFAULT_RETRIES = 0
DEFAULT_POOLBLOCK = False


class BaseAdapter:
    """What answers requests: subclasses have send()."""

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        raise NotImplementedError

    def close(self):
        pass


class HTTPAdapter(BaseAdapter):
    """Answers by the capability `http`."""

    def __init__(self, pool_connections=DEFAULT_POOLSIZE, pool_maxsize=DEFAULT_POOLSIZE, max_retries=DEFAULT_RETRIES,
                 pool_block=DEFAULT_POOLBLOCK):
        self.pool_connections, self.pool_maxsize, self.pool_block = pool_connections, pool_maxsize, pool_block
        self.max_retries = max_retries
        self.config = {}

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        from .sessions import Session
        return Session().send(request)


def __getattr__(name):
    if name == "Retry":
        from urllib3.util.retry import Retry
        return Retry
    raise AttributeError(f"module 'requests.adapters' has no attribute {name!r}")
