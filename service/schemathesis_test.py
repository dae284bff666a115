"""Every operation of openapi.json, driven by schemathesis (PyPI): generated requests, valid and invalid,
one by one and in chains by the document's links, against a running service.

MEMBRANE_SCHEMATHESIS names the program if it is installed; otherwise pip downloads it into an environment of
the test's own. MEMBRANE_TEST_SEEDS ("1 2 3") and MEMBRANE_TEST_EXAMPLES (per operation) make it search
elsewhere, and longer.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service_testing import SANITIZED, SECONDS, Service

HERE = Path(__file__).resolve().parent
PACKAGE = "schemathesis==4.32.5"  # of another version the same seed makes other requests
CHAINS = 10  # for each example of an operation
REQUEST_SECONDS = 60  # what takes so long hangs
# Excluded checks: positive_data_acceptance, since the schema does not cover policies; and
# object_level_authorization, which needs users that sign up (attacks/tenant_attack_test.py covers tenants).
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
          "allow_header_conformance", "ignored_auth", "use_after_free", "ensure_resource_availability")
SETTINGS = """\
hooks = "{hooks}"
continue-on-failure = true
request-timeout = {request_seconds}
[generation]
database = "none"
max-examples = {examples}
[phases.stateful]
max-steps = 12
[phases.stateful.generation]
max-examples = {chains}
mode = "positive"
[auth.openapi.token]
bearer = "${{MEMBRANE_TOKEN}}"
[checks]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "413", "414",
                                                "415", "422", "431"]
"""


def schemathesis(folder):
    """The program; downloaded if it is missing."""
    if there := os.environ.get("MEMBRANE_SCHEMATHESIS"):
        return there
    for command in ([sys.executable, "-m", "venv", folder / "venv"],
                    [folder / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"pip could not bring {PACKAGE}: {(done.stdout + done.stderr).strip()[-400:]}")
    return folder / "venv" / "bin" / "schemathesis"


def answers(entries):
    """How often each kind of request succeeded: what the generated ones have reached."""
    counts = collections.Counter()
    for each in entries:
        if each["event"] == "request" and each["status"] < 300:
            counts[each["method"] + " " + re.sub(r"/(sbx|exe|snp|tok|ctx)[a-z0-9]+", r"/{\1}", each["path"])] += 1
    return "\n".join(f"{count:6} {route}" for route, count in sorted(counts.items()))


def failures(output):
    """The program's report of failed requests, without the earlier phases; all of it when there is
    none."""
    return output[max(output.find("= FAILURES ="), 0):]


class Schemathesis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.folder = Path(directory.name)
        cls.program = schemathesis(cls.folder)
        cls.settings = cls.folder / "schemathesis.toml"
        examples = int(os.environ.get("MEMBRANE_TEST_EXAMPLES", "20"))
        cls.settings.write_text(SETTINGS.format(hooks=HERE / "schemathesis_hooks.py", request_seconds=REQUEST_SECONDS,
                                                examples=examples, chains=CHAINS * examples))

    def test_every_operation(self):
        for seed in os.environ.get("MEMBRANE_TEST_SEEDS", "1" if SANITIZED else "1 2 3").split():
            with self.subTest(seed=seed):
                self.drive(seed)

    def drive(self, seed):
        service = Service()
        self.addCleanup(service.log.close)
        templates = [name for name in ("python", "wat") if service.has_template(name)]
        sandboxes = [service.create(template) for template in templates]
        done = subprocess.run(
            [self.program, "--config-file", self.settings, "run", service.url + "/openapi.json", "--checks", ",".join(CHECKS),
             "--seed", seed, "--suppress-health-check", "all", "--warnings", "off", "--no-color"],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "MEMBRANE_URL": service.url, "MEMBRANE_TOKEN": service.token,
                 "MEMBRANE_TEMPLATES": " ".join(templates), "MEMBRANE_SANDBOXES": " ".join(sandboxes),
                 "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertIsNone(service.process.poll(), "the service has ended")
        self.assertEqual(service.stop(), 0)
        entries = [json.loads(line) for line in service.log_text().splitlines()]
        self.assertEqual(done.returncode, 0, failures(done.stdout)[:20_000] + done.stderr[-4_000:])
        print(next(line for line in done.stdout.splitlines() if "API Links" in line).strip(), answers(entries), sep="\n")
        self.assertEqual([each for each in entries if each["event"] == "exception"], [])


if __name__ == "__main__":
    unittest.main()
