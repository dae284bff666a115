import base64
import io
import json
import unittest
import urllib.error
import urllib.parse
import urllib.request

from tests.fake_door import DoorTest

import requests
from membrane import _net


class NetTest(DoorTest):
    def setUp(self):
        super().setUp()
        before = dict(vars(urllib.request))
        _net._installed = False
        _net.install()
        self.addCleanup(vars(urllib.request).update, before)
        self.asked = []

    def serve(self, status=200, body="", headers=None, url=None):
        def exchange(method, asked_url, sent, data):
            data = base64.b64decode(data["base64"]) if isinstance(data, dict) else data.encode()
            self.asked.append((method, asked_url, {k.lower(): v for k, v in json.loads(sent or "{}").items()}, data))
            answer = {"status": status, "url": url or asked_url, "headers": headers or {}}
            if isinstance(body, bytes):
                answer["body_base64"] = base64.b64encode(body).decode()
            else:
                answer["body"] = body
            return json.dumps(answer)

        self.answers["http.exchange"] = exchange

    def deny(self, errno="EACCES", message="no grant allows it", grant="--allow http"):
        self.answers["http.exchange"] = self.fails(errno, message, grant)


class Urllib(NetTest):
    def test_urlopen_reads_http_and_https(self):
        self.serve(body="é", headers={"content-type": "text/plain; charset=utf-8"}, url="https://h/there")
        for url in ("http://h/a?b=c#d", "https://h/a?b=c"):
            with urllib.request.urlopen(url, timeout=5) as answer:
                self.assertEqual((answer.status, answer.reason, answer.read().decode()), (200, "OK", "é"))
                self.assertEqual(answer.geturl(), "https://h/there")
                self.assertEqual(answer.headers.get_content_charset(), "utf-8")
                self.assertEqual(answer.getheader("Content-Type"), "text/plain; charset=utf-8")
        self.assertEqual([a[:2] for a in self.asked], [("GET", "http://h/a?b=c"), ("GET", "https://h/a?b=c")])

    def test_a_request_has_its_method_headers_and_data(self):
        self.serve()
        request = urllib.request.Request("http://h/", data=b"\xff\x00", headers={"X-Key": "v", "Host": "other"},
                                         method="PUT")
        urllib.request.urlopen(request)
        method, _, sent, data = self.asked[0]
        self.assertEqual((method, sent["x-key"], data), ("PUT", "v", b"\xff\x00"))
        self.assertNotIn("host", sent)
        urllib.request.urlopen("http://h/", data=b"a=1")
        self.assertEqual(self.asked[1][0], "POST")
        self.assertEqual(self.asked[1][2]["content-type"], "application/x-www-form-urlencoded")

    def test_a_status_of_failure_is_an_http_error_with_its_body(self):
        self.serve(404, "gone", {"x": "y"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen("http://h/")
        with caught.exception as error:
            self.assertEqual((error.code, error.read(), error.headers["X"]), (404, b"gone", "y"))

    def test_a_denial_is_both_errors_and_names_the_grant(self):
        self.deny()
        with self.assertRaises(PermissionError) as caught:
            urllib.request.urlopen("http://h/")
        self.assertIsInstance(caught.exception, urllib.error.URLError)
        self.assertIn("--allow http would allow it", str(caught.exception))
        self.deny("ETIMEDOUT")
        self.assertRaises(TimeoutError, urllib.request.urlopen, "http://h/")
        self.deny("ECONNECT")
        self.assertRaises(urllib.error.URLError, urllib.request.urlopen, "http://h/")

    def test_openers_of_ones_own_and_urlretrieve_work(self):
        self.serve(body=b"\x89PNG")
        opener = urllib.request.build_opener()
        opener.addheaders = [("User-Agent", "mine")]
        self.assertEqual(opener.open("https://h/").read(), b"\x89PNG")
        self.assertEqual(self.asked[0][2]["user-agent"], "mine")
        name, _ = urllib.request.urlretrieve("http://h/")
        with open(name, "rb") as file:
            self.assertEqual(file.read(), b"\x89PNG")
        urllib.request.urlcleanup()


class Cookies(NetTest):
    def sent(self):
        return self.asked[-1][2].get("cookie")

    def test_a_programs_cookies_are_sent(self):
        self.serve()
        requests.get("http://h/", cookies={"a": "b"})
        self.assertEqual(self.sent(), "a=b")
        with requests.Session() as session:
            session.cookies.set("s", "1")
            session.cookies["t"] = "2"
            session.cookies.update({"u": 3})
            session.get("http://h/")
            self.assertEqual(self.sent(), "s=1; t=2; u=3")
            session.get("http://h/", cookies={"s": "9"})
            self.assertEqual(self.sent(), "s=9; t=2; u=3")
            session.get("http://h/", headers={"Cookie": "own"})
            self.assertEqual(self.sent(), "own")
            session.send(session.prepare_request(requests.Request("GET", "http://h/", cookies={"v": "4"})))
            self.assertEqual(self.sent(), "s=1; t=2; u=3; v=4")
            session.cookies.clear()
            session.get("http://h/")
            self.assertIsNone(self.sent())

    def test_one_of_a_domain_is_for_that(self):
        self.serve()
        with requests.Session() as session:
            session.cookies.set("a", "b", domain="example.org", path="/in")
            for url, cookie in (("https://example.org/in/x", "a=b"), ("https://example.org/", None), ("https://other.net/in", None),
                                ("https://notexample.org/in", None)):
                session.get(url)
                self.assertEqual(self.sent(), cookie, url)

    def test_a_jar_is_a_dict_and_has_cookies(self):
        jar = requests.cookies.cookiejar_from_dict({"a": "1", "b": "2"})
        self.assertEqual((jar.get_dict(), dict(jar), jar["a"], jar.get("c"), jar.get("c", 5), len(jar), "b" in jar),
                         ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, "1", None, 5, 2, True))
        self.assertEqual([(cookie.name, cookie.value, cookie.path) for cookie in jar], [("a", "1", "/"), ("b", "2", "/")])
        del jar["a"]
        jar.set("b", None)
        self.assertEqual(jar.items(), [])
        self.assertRaises(KeyError, lambda: jar["a"])
        jar.set("a", "1", domain="x.org")
        jar.set("a", "2", domain="y.org")
        self.assertRaises(requests.cookies.CookieConflictError, jar.get, "a")
        self.assertEqual((jar.get("a", domain="y.org"), jar.copy().get_dict("x.org"), jar.list_domains()), ("2", {"a": "1"}, ["x.org", "y.org"]))

    def test_answers_bring_none(self):
        self.serve()
        answer = requests.get("http://h/")
        self.assertEqual((answer.cookies.get_dict(), answer.history), ({}, []))


class Requests(NetTest):
    def test_get_has_what_a_response_has(self):
        self.serve(200, '{"a": 1}', {"content-type": "application/json"}, url="http://h/there")
        answer = requests.get("http://h", params={"q": "a b", "n": [1, 2], "none": None}, headers={"Accept": "x"})
        self.assertEqual(self.asked, [("GET", "http://h/?q=a+b&n=1&n=2", {"accept": "x"}, b"")])
        self.assertEqual((answer.status_code, answer.ok, answer.reason, answer.url), (200, True, "OK", "http://h/there"))
        self.assertEqual((answer.json(), answer.text, answer.content), ({"a": 1}, '{"a": 1}', b'{"a": 1}'))
        self.assertEqual(answer.headers["Content-TYPE"], "application/json")
        self.assertTrue(answer)
        self.assertEqual(repr(answer), "<Response [200]>")
        answer.raise_for_status()

    def test_bodies(self):
        self.serve()
        requests.post("http://h/", json={"a": "é"})
        requests.post("http://h/", data={"a": "b c", "d": [1, 2]})
        requests.put("http://h/", data="text")
        requests.patch("http://h/", data=io.BytesIO(b"\x00\xff"), headers={"Content-Type": "image/png"})
        requests.delete("http://h/")
        requests.head("http://h/")
        requests.options("http://h/")
        requests.request("post", "http://h/", data=[("a", "1"), ("a", "2")])
        form = "application/x-www-form-urlencoded"
        self.assertEqual([(m, h.get("content-type"), b) for m, _, h, b in self.asked], [
            ("POST", "application/json", b'{"a": "\\u00e9"}'), ("POST", form, b"a=b+c&d=1&d=2"), ("PUT", form, b"text"),
            ("PATCH", "image/png", b"\x00\xff"), ("DELETE", None, b""), ("HEAD", None, b""), ("OPTIONS", None, b""),
            ("POST", form, b"a=1&a=2")])

    def test_files_are_a_form_of_parts(self):
        self.serve()
        requests.post("http://h/", data={"k": "v"}, files={"f": ("a\".txt", b"\xff", "text/plain")})
        _, _, sent, body = self.asked[0]
        kind, _, boundary = sent["content-type"].partition("; boundary=")
        self.assertEqual(kind, "multipart/form-data")
        self.assertEqual(body, (f'--{boundary}\r\nContent-Disposition: form-data; name="k"\r\n\r\nv\r\n'
                                f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="a%22.txt"\r\n'
                                f'Content-Type: text/plain\r\n\r\n').encode() + b"\xff\r\n" + f"--{boundary}--\r\n".encode())

    def test_callers(self):
        self.serve()
        requests.get("http://h/", auth=("u", "p"))
        requests.get("http://u:p%40@h/x")
        self.assertEqual(self.asked[0][2]["authorization"], "Basic dTpw")
        self.assertEqual(self.asked[1][1:3], ("http://h/x", {"authorization": "Basic dTpwQA=="}))

    def test_a_session_shares_headers_and_parameters(self):
        self.serve()
        with requests.Session() as session:
            session.headers.update({"X-A": "1", "X-B": "2"})
            session.params = {"k": "v"}
            session.auth = ("u", "p")
            session.get("http://h/", headers={"x-b": "3", "X-A": None}, params={"l": "w"})
        self.assertEqual(self.asked[0][1], "http://h/?k=v&l=w")
        self.assertEqual(self.asked[0][2], {"x-b": "3", "authorization": "Basic dTpw"})

    def test_statuses_of_failure(self):
        self.serve(503, "busy")
        answer = requests.get("http://h/")
        self.assertFalse(answer.ok)
        with self.assertRaises(requests.HTTPError) as caught:
            answer.raise_for_status()
        self.assertEqual(str(caught.exception), "503 Server Error: Service Unavailable for url: http://h/")
        self.assertIs(caught.exception.response, answer)
        with self.assertRaises(requests.exceptions.JSONDecodeError) as caught:
            answer.json()
        self.assertIsInstance(caught.exception, (requests.RequestException, ValueError))
        self.assertEqual(requests.codes.not_found, 404)

    def test_failures_have_their_classes(self):
        for errno, kinds in {"EACCES": [requests.ConnectionError, PermissionError], "ETIMEDOUT": [requests.Timeout],
                             "ECONNECT": [requests.ConnectionError], "EINVAL": [requests.exceptions.InvalidURL, ValueError],
                             "EQUOTA": [requests.TooManyRedirects]}.items():
            self.deny(errno)
            with self.assertRaises(requests.RequestException) as caught:
                requests.get("http://h/")
            for kind in kinds:
                self.assertIsInstance(caught.exception, kind)
        self.deny()
        with self.assertRaisesRegex(PermissionError, "--allow http would allow it") as caught:
            requests.get("http://h/")
        self.assertEqual(caught.exception.grant, "--allow http")
        for url, kind in (("example.org", requests.exceptions.MissingSchema), ("", requests.URLRequired),
                          ("ftp://h/", requests.exceptions.InvalidSchema)):
            self.assertRaises(kind, requests.get, url)
        self.assertEqual(len(self.requests), 6)

    def test_an_adapter_with_a_send_of_its_own_answers_below_its_prefix(self):
        class Own(requests.adapters.BaseAdapter):
            def send(self, request, **_):
                return "own " + request.url

        class Counting(requests.adapters.HTTPAdapter):
            sent = 0

            def send(self, request, **options):
                self.sent += 1
                return super().send(request, **options)

        self.serve(body="served")
        session, counting = requests.Session(), Counting(max_retries=3)
        session.mount("https://", counting)
        session.mount("https://own/", Own())
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=3))
        self.assertEqual(session.get("https://own/x"), "own https://own/x")
        self.assertEqual((session.get("https://h/").text, counting.sent), ("served", 1))
        self.assertEqual((session.get("http://h/").text, counting.sent), ("served", 1))

    def test_what_does_not_exist_is_refused(self):
        self.serve(url="http://h/elsewhere")
        for more in ({"verify": False}, {"cert": "x"}, {"proxies": {"http": "x"}}):
            self.assertRaises(NotImplementedError, requests.get, "http://h/", **more)
        self.assertEqual(self.asked, [])
        self.assertRaises(NotImplementedError, requests.get, "http://h/", allow_redirects=False)
        requests.get("http://h/", verify=True, timeout=(1, 2), stream=True)

    def test_text_has_its_encoding(self):
        self.serve(body="é".encode("latin-1"), headers={"content-type": "text/html; charset=ISO-8859-1"})
        self.assertEqual(requests.get("http://h/").text, "é")
        self.serve(body="é")
        answer = requests.get("http://h/")
        self.assertEqual((answer.encoding, answer.text), (None, "é"))
        self.assertEqual(list(answer.iter_content(1)), [b"\xc3", b"\xa9"])
        self.serve(body=b"a\nb\r\nc", headers={"link": '<http://h/2>; rel="next", <http://h/9>; rel="last"'})
        answer = requests.get("http://h/")
        self.assertEqual(list(answer.iter_lines()), [b"a", b"b", b"c"])
        self.assertEqual(answer.links["next"]["url"], "http://h/2")
        self.assertEqual(answer.links["last"]["url"], "http://h/9")


if __name__ == "__main__":
    unittest.main()
