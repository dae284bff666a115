"""Names of statuses: codes.not_found, codes["ok"]."""

import http


class _Codes:
    def __getattr__(self, name):
        try:
            return int(http.HTTPStatus[name.upper()])
        except KeyError:
            raise AttributeError(f"there is no status named {name!r}") from None

    def __getitem__(self, name):
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


codes = _Codes()
