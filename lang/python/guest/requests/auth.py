"""Ways to say who asks. Secrets are better kept in a grant, which puts them into headers outside of the program."""

import base64


class AuthBase:
    def __call__(self, request):
        raise NotImplementedError("an auth takes the request and gives it back")


class HTTPBasicAuth(AuthBase):
    def __init__(self, username, password):
        self.username, self.password = username, password

    def __call__(self, request):
        both = b":".join(part if isinstance(part, bytes) else str(part).encode("latin-1")
                         for part in (self.username, self.password))
        request.headers["Authorization"] = "Basic " + base64.b64encode(both).decode()
        return request
