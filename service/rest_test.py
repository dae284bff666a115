"""The REST interface over real connections: python3 service/rest_test.py [Class]"""

import http.client
import json
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from service_testing import NotStarted, SECONDS, Service, ServiceTest  # noqa: E402

HELLO_WAT = '(func (export "run") (call $io.println (string "hello")))'
ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
LOOP = '(module (func (export "run") (loop $again (br $again))))'
LONG = {"policy": {"limits": {"fuel": 10**15, "wall": "1h"}}}


class Lifecycle(ServiceTest):
    def test_a_sandbox_is_made_seen_changed_and_ended(self):
        made = self.service.request("POST", "/v1/sandboxes", {
            "template": "wat", "ttl_s": 600, "metadata": {"task": "1"}, "labels": ["a", "b"]})
        self.assertEqual(made.status, 201, made.body)
        sandbox = made.json
        path = f"/v1/sandboxes/{sandbox['id']}"
        self.assertEqual(made.headers["Location"], path)
        self.assertEqual((sandbox["template"], sandbox["state"], sandbox["metadata"], sandbox["labels"]),
                         ("wat", "idle", {"task": "1"}, ["a", "b"]))
        self.assertEqual(self.service.request("GET", path).json["id"], sandbox["id"])
        changed = self.service.request("PATCH", path, {"labels": ["c"], "idle_timeout_s": 60})
        self.assertEqual((changed.status, changed.json["labels"], changed.json["idle_timeout_s"]), (200, ["c"], 60))
        self.assertEqual(changed.json["metadata"], {"task": "1"})
        self.assertEqual(self.service.request("DELETE", path).status, 204)
        self.refused(self.service.request("GET", path), 404, "not_found")
        self.refused(self.service.request("DELETE", path), 404, "not_found")

    def test_lists_come_in_pages(self):
        made = [self.service.create("wat", labels=["page"]) for _ in range(5)]
        seen, cursor, pages = [], "", 0
        while cursor is not None:
            answer = self.service.request("GET", f"/v1/sandboxes?label=page&limit=2&cursor={cursor}").json
            seen += [each["id"] for each in answer["sandboxes"]]
            cursor, pages = answer["next_cursor"], pages + 1
        self.assertEqual((sorted(seen), pages), (sorted(made), 3))
        self.assertEqual(self.service.request("GET", "/v1/sandboxes?label=none").json,
                         {"sandboxes": [], "next_cursor": None})

    def test_a_list_of_those_with_metadata(self):
        def found(query):
            return [each["id"] for each in self.service.request("GET", f"/v1/sandboxes?label=of-metadata&{query}").json["sandboxes"]]
        first, second = (self.service.create("wat", labels=["of-metadata"], metadata={"user": "a b", "task.id": number})
                         for number in ("1", "2"))
        self.assertCountEqual(found("metadata.user=a%20b"), [first, second])  # made in one millisecond, they go by their ids
        self.assertEqual(found("metadata.user=a%20b&metadata.task.id=2"), [second])
        self.assertEqual(len(found("metadata.user=a%20b&limit=1")), 1)
        for none in ("metadata.user=a", "metadata.other=1", "metadata.user=", "metadata.task=1"):
            self.assertEqual(found(none), [], none)
        for wrong in ("metadata.=1", "metadata=1", "metadata.user=1&metadata.user=2"):
            self.refused(self.service.request("GET", f"/v1/sandboxes?{wrong}"), 400, "invalid_request")

    def test_a_hint_names_the_field_of_the_policy(self):
        sandbox = self.service.create("wat")
        for program, hint in (('(set $url "https://example.org/x") (drop (call $http.get! $url))',
                               '"http": [{"methods": ["GET"], "url": "https://example.org/*"}]'),
                              ('(set $key "a") (drop (call $kv.get! $key))', '"kv": {}')):
            with self.subTest(hint=hint):
                error = self.service.exec(sandbox, f'(func (export "main") {program})')["error"]
                self.assertEqual(error["hint"], f"It would be allowed by {hint} in the sandbox's policy.")

    def test_an_empty_policy_revokes_every_grant_and_leaves_the_limits(self):
        sandbox = self.service.create("wat", policy={"kv": {}, "limits": {"fuel": 12345}})
        path = f"/v1/sandboxes/{sandbox}/policy"
        before = self.service.request("GET", path).json
        self.assertIn("kv", before)
        self.assertEqual(self.service.request("PATCH", path, {}).status, 200)
        after = self.service.request("GET", path).json
        self.assertEqual(after, {name: value for name, value in before.items() if name != "kv"})
        self.assertEqual(after["limits"]["fuel"], 12345)

    def test_what_a_policy_may_not_grant(self):
        for policy, code in (({"fs": [{"guest": "/x", "host": "/etc", "mode": "read"}]}, "forbidden"),
                             ({"kv": {"path": "/tmp/x.db"}}, "forbidden"),
                             ({"limits": {"memory": "1TiB"}}, "invalid_value"),
                             ({"limits": {"fule": 1}}, "invalid_value")):
            with self.subTest(policy=policy):
                answer = self.service.request("POST", "/v1/sandboxes", {"template": "wat", "policy": policy})
                error = self.refused(answer, {"forbidden": 403, "invalid_value": 422}[code], code)
                self.assertNotIn("policy.json", error["message"] + error["hint"], "there is no such file")

    def test_an_unknown_template(self):
        error = self.refused(self.service.request("POST", "/v1/sandboxes", {"template": "cobol"}), 422, "invalid_value")
        self.assertIn("cobol", error["message"])
        error = self.refused(self.service.request("POST", "/v1/sandboxes", {"template": "pythn"}), 422, "invalid_value")
        self.assertIn("Did you mean python?", error["hint"])


class Execs(ServiceTest):
    def test_a_program_in_wat(self):
        sandbox = self.service.create("wat")
        report = self.service.exec(sandbox, ADD)
        self.assertEqual((report["outcome"], report["results"][0]["value"]), ("ok", 42))
        self.assertTrue(report["exec_id"].startswith("exe"))

    def test_a_program_that_is_wrong_is_a_report_and_no_error(self):
        sandbox = self.service.create("wat")
        self.assertEqual(self.service.exec(sandbox, "(module (fun))")["outcome"], "invalid")

    def test_events_and_then_the_report(self):
        sandbox = self.service.create("wat")
        events = self.service.events("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": HELLO_WAT})
        self.assertEqual(events[0], ("stdout", {"text": "hello\n"}))
        self.assertEqual((events[-1][0], events[-1][1]["outcome"]), ("report", "ok"))
        exec_id = events[-1][1]["exec_id"]
        again = self.service.events("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/events")
        self.assertEqual(again, events)
        rest = self.service.events("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/events?after=0")
        self.assertEqual(rest, events[1:])

    def test_one_that_runs_beside_the_request_is_cancelled(self):
        sandbox = self.service.create("wat", **LONG)
        begun = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP, "background": True})
        self.assertEqual(begun.status, 202, begun.body)
        path = f"/v1/sandboxes/{sandbox}/execs/{begun.json['exec_id']}"
        self.assertIn(self.service.request("GET", path).json["state"], ("queued", "running"))
        self.assertEqual(self.service.request("DELETE", path).status, 204)
        outcome = self.service.events("GET", path + "/events")[-1][1]["outcome"]
        self.assertEqual(outcome, "cancelled")
        done = self.service.request("GET", path).json
        self.assertEqual((done["state"], done["report"]["outcome"]), ("done", "cancelled"))
        (listed,) = self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"]
        self.assertEqual((listed["state"], listed["outcome"]), ("done", "cancelled"))
        self.assertEqual(self.service.request("DELETE", path).status, 204)  # it stays as it is
        self.assertEqual(self.service.request("GET", path).json, done)
        self.assertEqual(self.service.exec(sandbox, ADD)["outcome"], "ok")  # the sandbox continues

    def test_a_sandbox_that_is_ended_stops_what_it_runs(self):
        sandbox = self.service.create("wat", **LONG)
        begun = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP, "background": True})
        self.assertEqual(begun.status, 202, begun.body)
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)
        self.refused(self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD}), 404, "not_found")

    def test_a_timeout_is_an_outcome(self):
        sandbox = self.service.create("wat", **LONG)
        report = self.service.exec(sandbox, LOOP, timeout_ms=1)
        self.assertEqual(report["outcome"], "timed_out")
        self.assertIn("the 1 ms", report["error"]["message"])
        self.assertIn("timeout_ms", report["error"]["hint"])

    def test_wat_keeps_no_files(self):
        sandbox = self.service.create("wat")
        self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}/files?path=/x"), 422, "unsupported")


class Languages(ServiceTest):
    def test_state_stays_between_execs(self):
        for template, code in (("python", ("x = 20", "x + 22")), ("javascript", ("var x = 20", "x + 22"))):
            with self.subTest(template=template):
                if not self.service.has_template(template):
                    self.skipTest(f"{template} is not installed")
                sandbox = self.service.create(template)
                self.assertEqual(self.service.exec(sandbox, code[0])["outcome"], "ok")
                self.assertEqual(self.service.exec(sandbox, code[1])["result"], "42")

    def test_files_go_in_and_out(self):
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")
        sandbox = self.service.create("python")
        data = bytes(range(256)) * 1000
        path = f"/v1/sandboxes/{sandbox}/files"
        put = self.service.request("PUT", path + "?path=/tmp/a%20b.bin", data)
        self.assertEqual(put.status, 204, put.body)
        report = self.service.exec(sandbox, "data = open('/tmp/a b.bin', 'rb').read()\n"
                                            "_ = open('/tmp/c.bin', 'wb').write(data[::-1])\nlen(data)")
        self.assertEqual(report["result"], str(len(data)), report)
        self.assertEqual(self.service.request("GET", path + "?path=/tmp/c.bin").body, data[::-1])
        listed = self.service.request("GET", path + "/list").json["files"]
        self.assertEqual({each["path"] for each in listed}, {"/tmp/a b.bin", "/tmp/c.bin"})
        self.refused(self.service.request("GET", path + "?path=/tmp/none"), 404, "not_found")

    def test_output_and_input(self):
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")
        sandbox = self.service.create("python")
        events = self.service.events("POST", f"/v1/sandboxes/{sandbox}/exec", {
            "code": "import sys\nprint(input()[::-1])\nprint('oh', file=sys.stderr)", "stdin": "abc\n"})
        self.assertEqual([event for event in events if event[0] != "report"],
                         [("stdout", {"text": "cba\n"}), ("stderr", {"text": "oh\n"})])


class LiveInput(ServiceTest):
    """What a program reads while it runs."""

    def begin(self, sandbox, code, **spec):
        begun = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec",
                                     {"code": code, "open_stdin": True, "background": True, **spec})
        self.assertEqual(begun.status, 202, begun.body)
        return f"/v1/sandboxes/{sandbox}/execs/{begun.json['exec_id']}"

    def give(self, path, data, eof=False, status=204):
        answer = self.service.request("POST", path + "/stdin" + ("?eof=true" if eof else ""), data)
        self.assertEqual(answer.status, status, answer.body)
        return answer

    def report(self, path):
        return self.service.events("GET", path + "/events")[-1][1]

    def output(self, path, count):
        """The first events of a running exec."""
        connection = http.client.HTTPConnection(self.service.host, self.service.port, timeout=SECONDS)
        connection.request("GET", path + "/events", headers={"Authorization": f"Bearer {self.service.token}"})
        response, lines = connection.getresponse(), []
        while len(lines) < count:
            line = response.readline().decode()
            self.assertTrue(line)
            if line.startswith("data: "):
                lines.append(json.loads(line[6:])["text"])
        connection.close()
        return lines

    def test_a_program_reads_input_as_it_comes(self):
        cases = (("python", "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)"),
                 ("python", "while True:\n  try: print('got', input())\n  except EOFError: break"))
        for template, code in cases:
            if not self.service.has_template(template):
                self.skipTest(f"{template} is not installed")
            sandbox = self.service.create(template)
            path = self.begin(sandbox, code, stdin="first\n")
            self.assertEqual(self.output(path, 1), ["got first\n"])
            self.give(path, b"second\n")
            self.assertEqual("".join(self.output(path, 1)).splitlines()[:2][-1][:4], "got ")
            self.give(path, b"third", eof=True)
            self.assertEqual(self.report(path)["stdout"], "got first\ngot second\ngot third\n")
            # None of it is left for the next one.
            self.assertEqual(self.service.exec(sandbox, "import sys; sys.stdin.read()")["result"], "''")
            again = self.begin(sandbox, "a = input(); a")
            self.give(again, b"fresh\nleft over\n")
            self.assertEqual(self.report(again)["result"], "'fresh'")
            last = self.begin(sandbox, "input()")
            self.give(last, b"own\n", eof=True)
            self.assertEqual(self.report(last)["result"], "'own'")

    def test_a_program_of_wat_has_all_of_it_before_it_starts(self):
        sandbox = self.service.create("wat")
        path = self.begin(sandbox, '(func (export "run") (call $io.print (call $io.input)))')
        self.give(path, b"a")
        self.give(path, b"b", eof=True)
        self.assertEqual(self.report(path)["stdout"], "ab")

    def test_what_takes_no_input_says_so(self):
        sandbox = self.service.create("wat", **LONG)
        closed = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP, "background": True}).json["exec_id"]
        closed = f"/v1/sandboxes/{sandbox}/execs/{closed}"
        self.refused(self.give(closed, b"x", status=409), 409, "conflict")
        self.service.request("DELETE", closed)
        refused = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD, "open_stdin": True})
        self.refused(refused, 422, "invalid_value")
        path = self.begin(sandbox, LOOP)
        self.give(path, b"x", eof=True)
        self.refused(self.give(path, b"y", status=409), 409, "conflict")
        self.service.request("DELETE", path)
        self.assertEqual(self.report(path)["outcome"], "cancelled")
        self.refused(self.give(path, b"z", status=409), 409, "conflict")
        self.refused(self.give(f"/v1/sandboxes/{sandbox}/execs/none", b"z", status=404), 404, "not_found")

    def test_what_is_not_read_is_bounded(self):
        sandbox = self.service.create("wat", **LONG)
        first = self.begin(sandbox, LOOP)  # the second waits for it, and reads nothing meanwhile
        path = self.begin(sandbox, ADD)
        self.give(path, b"x" * (1 << 20))
        error = self.refused(self.give(path, b"y", status=429), 429, "too_many_requests")
        self.assertTrue(error["retryable"])
        self.give(path, b"", eof=True)
        self.service.request("DELETE", path)
        self.service.request("DELETE", first)

    def test_an_exec_that_waits_for_input_is_stopped(self):
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")
        sandbox = self.service.create("python")
        path = self.begin(sandbox, "print('ready', flush=True)\ninput()")
        self.assertEqual(self.output(path, 1), ["ready\n"])
        self.assertEqual(self.service.request("DELETE", path).status, 204)
        self.assertEqual(self.report(path)["outcome"], "cancelled")
        self.assertEqual(self.service.exec(sandbox, "1 + 1")["result"], "2")


class Access(ServiceTest):
    def test_no_token_and_wrong_tokens(self):
        for headers in ({}, {"Authorization": "Bearer mbr_wrong"}, {"Authorization": "Basic eDp5"},
                        {"X-API-Key": "mbr_wrong"}):
            with self.subTest(headers=headers):
                answer = self.service.request("GET", "/v1/sandboxes", headers=headers, token=False)
                self.refused(answer, 401, "unauthorized")
                self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")

    def test_a_token_allows_what_its_scopes_say(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "reader", "scopes": ["sandboxes:read"]})
        self.assertEqual(made.status, 201, made.body)
        token = made.json["token"]
        self.assertEqual(self.service.request("GET", "/v1/sandboxes", token=token).json["sandboxes"], [])
        self.refused(self.service.request("POST", "/v1/sandboxes", {"template": "wat"}, token=token), 403, "forbidden")
        self.refused(self.service.request("GET", "/v1/tokens", token=token), 403, "forbidden")
        listed = self.service.request("GET", "/v1/tokens").body.decode()
        self.assertIn(made.json["info"]["id"], listed)
        self.assertNotIn(token, listed)
        self.assertEqual(self.service.request("DELETE", f"/v1/tokens/{made.json['info']['id']}").status, 204)
        self.refused(self.service.request("GET", "/v1/sandboxes", token=token), 401, "unauthorized")

    def test_the_owners_token_is_not_taken_back(self):
        self.refused(self.service.request("DELETE", "/v1/tokens/owner"), 409, "conflict")
        self.assertEqual(self.service.request("GET", "/v1/tokens").status, 200)

    def test_sandboxes_of_others_are_not_found(self):
        sandbox = self.service.create("wat")
        other = self.service.request("POST", "/v1/tokens", {"name": "other", "scopes": ["sandboxes:read", "exec"]}).json
        self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}", token=other["token"]), 404, "not_found")
        self.refused(self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD}, token=other["token"]),
                     404, "not_found")

    def test_the_log_has_no_token(self):
        self.service.request("GET", f"/v1/sandboxes?cursor={self.service.token}")
        self.assertNotIn(self.service.token, self.service.log_text())


class Requests(ServiceTest):
    def test_a_body_that_is_not_json_has_an_error_with_a_place(self):
        for body, place in (('{"template": wat}', "line 1, column 14"), ('{"template":\n "wat"', "line 2, column 7"), ("{'a': 1}", "column 2")):
            with self.subTest(body=body):
                answer = self.service.request("POST", "/v1/sandboxes", body, {"Content-Type": "application/json"})
                self.assertIn(place, self.refused(answer, 400, "invalid_request")["hint"])

    def test_the_description_has_no_reference_into_a_schema(self):
        document = self.service.request("GET", "/openapi.json").json

        def references(value):
            if isinstance(value, dict):
                for name, each in value.items():
                    if name == "$ref":
                        yield each
                    else:
                        yield from references(each)
            elif isinstance(value, list):
                for each in value:
                    yield from references(each)

        for reference in references(document):
            _, _, kind, name = reference.split("/", 3)
            self.assertIn(name, document["components"][kind])
        self.assertIn("timed_out", document["components"]["schemas"]["ReportOutcome"]["enum"])

    def test_the_report_of_an_exec_is_described_with_all_of_its_fields(self):
        schemas = self.service.request("GET", "/openapi.json").json["components"]["schemas"]
        described = set()
        for part in schemas["ExecReport"]["allOf"]:
            part = schemas[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
            self.assertNotIn("additionalProperties", part)  # each part alone would refuse the other's fields
            described |= set(part["properties"])
        self.assertLessEqual({"exec_id", "receipt", "outcome", "stdout", "error"}, described)
        report = self.service.request("POST", f"/v1/sandboxes/{self.service.create('wat')}/exec", {"code": "(nop)"}).json
        self.assertLessEqual(set(report), described)

    def test_health_and_description_need_no_token(self):
        self.assertEqual(self.service.request("GET", "/health", token=False).json["status"], "ok")
        document = self.service.request("GET", "/openapi.json", token=False).json
        self.assertEqual(document["openapi"], "3.1.0")
        self.assertIn("/v1/sandboxes/{sandbox}/exec", document["paths"])

    def test_a_wrong_body_has_an_error_with_a_place(self):
        cases = (("{", 400, "invalid_request", ""),
                 ('"text"', 422, "invalid_value", "the body"),
                 ("{}", 422, "invalid_value", '"template" is missing'),
                 ('{"template":1}', 422, "invalid_value", '"template" must be a string'),
                 ('{"template":"wat","ttl":1}', 422, "invalid_value", '"ttl" is not known'),
                 ('{"template":"wat","ttl_s":0}', 422, "invalid_value", '"ttl_s" must be at least 1'),
                 ('{"template":"wat","labels":["a","a"]}', 422, "invalid_value", '"labels"'),
                 ('{"template":"wat","metadata":{"a":1}}', 422, "invalid_value", '"metadata.a" must be a string'),
                 ('{"template":"\xff"}'.encode("latin-1"), 400, "invalid_request", ""),
                 ("[" * 100_000, 400, "invalid_request", ""))
        for body, status, code, shown in cases:
            with self.subTest(body=body[:40]):
                answer = self.service.request("POST", "/v1/sandboxes", body, {"Content-Type": "application/json"})
                self.assertIn(shown, self.refused(answer, status, code)["message"])

    def test_an_operation_without_a_body_takes_an_empty_one(self):
        made = self.service.create("wat")
        json = {"Content-Type": "application/json"}
        for body in (None, {}, b"", b" {} "):
            answer = self.service.request("POST", f"/v1/sandboxes/{made}/pause", body, json)
            self.assertNotIn(answer.status, (400, 413), answer.body)
        for body in (b'{"a": 1}', b"[]", b"null", b"{", b"x" * 10_000):
            answer = self.service.request("POST", f"/v1/sandboxes/{made}/pause", body, json)
            self.assertIn("POST /v1/sandboxes/{sandbox}/pause takes no body",
                          self.refused(answer, 400, "invalid_request")["message"])
        self.refused(self.service.request("GET", "/health", b'{"a": 1}', json), 400, "invalid_request")
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{made}", {}).status, 204)

    def test_a_missing_resource(self):
        self.refused(self.service.request("GET", "/nothing"), 404, "not_found")
        self.refused(self.service.request("GET", "/v1/nothing"), 404, "not_found")
        self.refused(self.service.request("GET", "/v1/sandboxes/"), 404, "not_found")
        answer = self.service.request("PUT", "/v1/sandboxes", b"")
        self.refused(answer, 405, "method_not_allowed")
        self.assertEqual(set(answer.headers["Allow"].split(", ")), {"GET", "POST"})
        self.refused(self.service.request("GET", "/v1/sandboxes?what=1"), 400, "invalid_request")
        self.refused(self.service.request("GET", "/v1/sandboxes?limit=x"), 422, "invalid_value")
        self.refused(self.service.request("GET", "/v1/sandboxes?limit=1&limit=2"), 400, "invalid_request")
        self.refused(self.service.request("GET", "/v1/sandboxes?cursor=%zz"), 400, "invalid_request")
        self.refused(self.service.request("POST", "/v1/sandboxes", "a=1", {"Content-Type": "text/plain"}), 415,
                     "unsupported_media_type")

    def test_the_clients_id_of_a_request_is_kept(self):
        answer = self.service.request("GET", "/health", headers={"X-Request-Id": "mine-1"})
        self.assertEqual(answer.headers["X-Request-Id"], "mine-1")
        answer = self.service.request("GET", "/health", headers={"X-Request-Id": "a b"})
        self.assertRegex(answer.headers["X-Request-Id"], "^req[0-9a-f]{24}$")

    def raw(self, data):
        """The answer to these bytes, until the server closes."""
        with socket.create_connection((self.service.host, self.service.port), timeout=SECONDS) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it answered and closed before it had read all
            received = b""
            while piece := connection.recv(65536):
                received += piece
            return received

    def test_bytes_that_are_not_http(self):
        self.assertIn(b"400 Bad Request", self.raw(b"\x16\x03\x01\x02\x00\x01\r\n\r\n"))
        self.assertIn(b"400 Bad Request", self.raw(b"GET /health HTTP/1.1\r\n\r\n"))  # no Host
        self.assertIn(b"400 Bad Request", self.raw(b"GET health HTTP/1.1\r\nHost: x\r\n\r\n"))
        self.assertIn(b"431 ", self.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000 + b"\r\n\r\n"))
        self.assertIn(b"414 ", self.raw(b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"))

    def test_a_body_beyond_its_limit_is_not_read(self):
        head = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.service.token}\r\n"
        self.assertIn(b"413 ", self.raw(head.encode() + b"Content-Length: 99999999999\r\n\r\n"))
        self.assertIn(b"401 ", self.raw(b"PUT /v1/sandboxes/x/files?path=/x HTTP/1.1\r\nHost: x\r\n"
                                        b"Content-Length: 60000000\r\n\r\n"))

    def test_requests_one_after_the_other_on_a_connection(self):
        one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        self.assertEqual(self.raw(one * 3).count(b"200 OK"), 3)


class Ends(unittest.TestCase):
    def test_a_stop_lets_what_runs_end(self):
        service = Service("--drain", "0")
        sandbox = service.create("wat", **LONG)
        service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP, "background": True})
        self.assertEqual(service.stop(), 0)
        events = [json.loads(line)["event"] for line in service.log_text().splitlines()]
        self.assertIn("listening", events)
        self.assertEqual(events[-2:], ["draining", "stopped"])
        service.log.close()

    def test_flags_that_there_are_not(self):
        for flags, words in ((["--prot", "1"], ("unknown option --prot", "Did you mean --port?")),
                             (["--port"], ("--port", "membrane serve --help")), (["serve"], ("unexpected argument serve",)),
                             (["--accept-missing-wall", "system_calls", "serve"], ("unexpected argument serve",))):
            with self.subTest(flags=flags), self.assertRaises(NotStarted) as caught:
                Service(*flags)
            self.assertEqual(caught.exception.code, 2)
            for word in words:
                self.assertIn(word, caught.exception.text)

    def test_packages_is_a_flag(self):
        service = Service("--packages")
        self.assertEqual(service.stop(), 0)
        service.log.close()

    def test_two_on_one_port(self):
        service = Service()
        with self.assertRaises(NotStarted):
            Service("--port", str(service.port))
        service.stop()


if __name__ == "__main__":
    unittest.main()
