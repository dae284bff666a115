"""membrane agent, with scripted models.

MEMBRANE_MODEL_SERVER names the scripted model server (build/release of these sources otherwise).
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

from command_testing import COMMAND, CommandTest, ROOT, SECONDS, SEVEN, WithLanguages, fenced

MODEL_SERVER = os.environ.get("MEMBRANE_MODEL_SERVER", str(ROOT / "build" / "release" / "model_server"))


class Agent(CommandTest):
    PRINTS = '(func (export "main") (call $io.println (string "forty-two")))'
    INVALID = '(func (export "main") (call $io.printn (string "x")))'

    def answers(self, *answers):
        return self.file("answers.jsonl", "".join(json.dumps(answer) + "\n" for answer in answers))

    def test_thought_program_observation_answer_and_table(self):
        answers = self.answers(fenced(self.INVALID), fenced(self.PRINTS), {"content": "ANSWER: It is 42."})
        text = self.membrane("agent", "What is it?", "--model-file", answers).stdout
        for part in ("I run it.", "── observation", "unknown", "forty-two", "── answer\nIt is 42.\n", "1 step, 1 repair\n"):
            self.assertIn(part, text)

    def test_a_budget_that_is_used_up(self):
        answers = self.answers(*[fenced(self.PRINTS)] * 3)
        text = self.membrane("agent", "task", "--model-file", answers, "--max-steps", "2", code=1).stdout
        self.assertIn("out_of_steps", text)

    def test_json_is_one_object(self):
        answers = self.answers(fenced(self.PRINTS), {"content": "ANSWER: 42"})
        done = self.membrane("agent", "task", "--model-file", answers, "--json")
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))
        result = json.loads(done.stdout)
        self.assertEqual((result["stop"], result["answer"], result["error"]), ("answered", "42", None))
        self.assertEqual(result["totals"]["steps"], 1)
        self.assertGreater(result["totals"]["fuel"], 0)

    def test_a_transcript_replays_without_a_difference(self):
        answers = self.answers(fenced(self.INVALID), fenced(self.PRINTS), {"content": "ANSWER: 42"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl")
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        self.assertEqual((lines[0]["type"], lines[-1]["type"]), ("header", "end"))
        done = self.membrane("agent", "--replay", "run.jsonl")
        self.assertEqual(done.stderr, "")
        self.assertIn("42", done.stdout)

    def test_a_replay_that_differs_says_where(self):
        answers = self.answers(fenced(self.PRINTS), {"content": "ANSWER: 42"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl")
        text = (self.folder / "run.jsonl").read_text()
        changed = re.sub(r'"fuel_used":\d+', '"fuel_used":1', text)
        self.assertNotEqual(changed, text)
        done = self.membrane("agent", "--replay", self.file("changed.jsonl", changed), code=1)
        self.assertRegex(done.stderr, r"membrane: replay: .*fuel_used was 1, is \d+")

    def recorded(self, code, *options):
        """A transcript of one program and an answer, as text."""
        answers = self.answers(fenced(code), {"content": "ANSWER: done"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl", *options)
        return (self.folder / "run.jsonl").read_text()

    USES_KV = '(func (export "main") (result i32) (call $kv.set (string "k") (string "v")))'

    def test_a_replay_is_granted_no_more_than_was_recorded(self):
        self.recorded(self.USES_KV)
        done = self.membrane("agent", "--replay", "run.jsonl", "--allow", "kv")
        self.assertIn("kv was not granted when the run was recorded: it is not granted now", done.stderr)
        self.assertIn("failed host calls", done.stdout)

    def test_a_transcript_grants_nothing_by_itself(self):
        text = self.recorded(self.USES_KV, "--allow", "kv")
        header = json.loads(text.splitlines()[0])
        header["policy"]["kv"]["path"] = "made.db"
        forged = self.file("forged.jsonl", "\n".join([json.dumps(header), *text.splitlines()[1:]]) + "\n")
        done = self.membrane("agent", "--replay", forged, code=1)
        self.assertIn("kv in made.db was granted when the run was recorded, and is not now", done.stderr)
        self.assertFalse((self.folder / "made.db").exists())

    def test_a_replay_has_the_limits_of_the_recording(self):
        self.recorded(self.PRINTS, "--fuel", "123456", "--output", "777B")
        self.assertEqual(self.membrane("agent", "--replay", "run.jsonl").stderr, "")
        self.membrane("agent", "--replay", "run.jsonl", "--fuel", "2e9", "--transcript", "again.jsonl")
        limits = json.loads((self.folder / "again.jsonl").read_text().splitlines()[0])["policy"]["limits"]
        self.assertEqual(limits["fuel"], 123456)

    def test_a_transcript_whose_policy_cannot_be_read_is_refused(self):
        text = self.recorded(self.PRINTS)
        header = json.loads(text.splitlines()[0])
        header["policy"] = {"everything": True}
        forged = self.file("forged.jsonl", "\n".join([json.dumps(header), *text.splitlines()[1:]]) + "\n")
        self.assertIn("policy in the header", self.membrane("agent", "--replay", forged, code=2).stderr)

    def test_json_needs_a_task(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: x"}\n')
        done = self.membrane("agent", "--json", "--model-file", answers, stdin="hi\n", code=2)
        error = json.loads(done.stdout)["error"]
        self.assertIn("--json", error["message"])
        self.assertIn("task", error["hint"])

    def test_the_prompt_holds_functions_policy_and_catalog(self):
        text = self.membrane("agent", "--print-prompt", "--allow", "http:GET:https://example.org/*").stdout
        for part in ("http: get!(url)->body", "https://example.org", "ANSWER:", "Not granted: fs, "):
            self.assertIn(part, text)
        self.assertNotIn("\nsql: ", text)
        programs = {program.stem: re.findall("^;; needs: (.*)$", program.read_text(), re.M)
                    for program in (ROOT / "catalog").glob("*.wat")}
        for grants in ([], ["kv"], ["kv", "ai", "sql:d:d.db", "fs:read:.:/data", "http:GET:https://example.org/*"]):
            flags = [part for grant in grants for part in ("--allow", grant)]
            text = self.membrane("agent", "--print-prompt", "--catalog", ROOT / "catalog", *flags).stdout
            granted = {grant.split(":")[0] for grant in grants}
            left_out = 0
            for name, needs in programs.items():
                can_run = all(need in granted for need in ", ".join(needs).split(", ") if need)
                left_out += not can_run
                self.assertEqual(bool(re.search(rf"(?:^|, ){name}(?:[,(.]|$)", text, re.M)), can_run, name)
            self.assertEqual(re.findall(r"^(\d+) more needs? what is not granted", text, re.M),
                             [str(left_out)] if left_out else [])

    def test_the_prompt_is_as_large_as_its_page_says(self):
        said = re.search(r"system prompt has about (\d+) KB", (ROOT / "docs" / "local-model.md").read_text()).group(1)
        policy = ROOT / "examples" / "policies" / "web-research.toml"
        done = self.membrane("agent", "--print-prompt", "--catalog", ROOT / "catalog", "--policy", policy)
        self.assertEqual(round(len(done.stdout.encode()) / 1000), int(said))

    def test_a_missing_language_is_refused_before_anything_is_asked(self):
        answers = self.answers({"content": "ANSWER: x"})
        self.assert_refused(self.membrane("agent", "task", "--model-file", answers, "--language", "wat,python", code=2),
                            "python is not installed", "languages add python")
        self.assert_refused(self.membrane("agent", "task", "--model-file", answers, "--language", "../wat", code=2),
                            "not the name of a language", "python, js or wat")
        self.assertEqual(self.membrane("agent", "task", "--model-file", answers, "--language", "wat").stderr, "")

    def test_a_program_in_another_language_is_answered_with_the_installed_ones(self):
        answers = self.answers({"content": "```bash\nls\n```"}, {"content": "ANSWER: x"})
        text = self.membrane("agent", "task", "--model-file", answers).stdout
        self.assertIn("Programs in bash cannot be run here. Write WAT (```wat).", text)

    def test_the_fuel_of_a_task_can_be_more_than_a_program_has(self):
        endless = fenced('(func (export "main") (loop (br 0)))')
        answers = self.answers(endless, fenced(self.PRINTS), {"content": "ANSWER: x"})
        fuel = ("--model-file", answers, "--fuel", "1e6", "--json")
        totals = json.loads(self.membrane("agent", "task", *fuel, code=1).stdout)
        self.assertEqual((totals["stop"], totals["totals"]["steps"]), ("out_of_fuel", 1))
        totals = json.loads(self.membrane("agent", "task", *fuel, "--task-fuel", "3e6").stdout)
        self.assertEqual((totals["stop"], totals["totals"]["steps"]), ("answered", 2))
        self.assertIn("--task-fuel", self.membrane("agent", "task", "--task-fuel", "much", code=2).stderr)

    def test_no_model_and_bad_files_are_refused(self):
        self.assert_refused(self.membrane("agent", "task", code=2), "No model is configured", "MEMBRANE_MODEL=")
        for flag in ("--model-file", "--replay"):
            self.assertIn("gone", self.membrane("agent", "task", flag, "gone", code=2).stderr)
        self.file("bad.jsonl", '{"contents": "x"}\n')
        self.assertIn("contents", self.membrane("agent", "task", "--model-file", "bad.jsonl", code=2).stderr)


class AgentInLanguages(WithLanguages):
    def task(self, language, *replies, options=(), code=0):
        done = subprocess.run([COMMAND, "agent", "--print-prompt", "--language", language], capture_output=True,
                              env=self.environment, timeout=SECONDS)
        if done.returncode != 0:
            self.skipTest(f"{language} is not installed")
        answers = self.file("answers.jsonl", "".join(json.dumps({"content": reply}) + "\n" for reply in replies))
        return self.membrane("agent", "task", "--model-file", answers, "--language", language, "--transcript", "run.jsonl",
                             *options, code=code)

    def test_a_task_in_python_ends_in_its_answer_and_replays(self):
        (self.folder / "data").mkdir()
        self.file("data/a.csv", "n\n2\n40\n")
        text = self.task("python", "```python\nimport csv\nrows = [int(r['n']) for r in csv.DictReader(open('/data/a.csv'))]\n```",
                         "```python\nopen('/etc/passwd')\n```", "```python\nsum(rows)\n```",
                         "```python\nfrom membrane import agent\nagent.submit(str(sum(rows)))\n```",
                         options=["--allow", "fs:read:./data:/data", "--fuel", "2e9"]).stdout
        for part in ("result:\n42\n", "FileNotFoundError", "── answer\n42\n", "4 steps\n"):
            self.assertIn(part, text)
        done = self.membrane("agent", "--replay", "run.jsonl", "--fuel", "2e9", "--allow", "fs:read:./data:/data")
        self.assertEqual(done.stderr, "")

    def test_a_task_in_javascript_and_wat_continues_when_a_step_has_no_fuel(self):
        text = self.task("js,wat", "```js\nlet x = 20\n```", "```js\nfor (;;) {}\n```", fenced(SEVEN)["content"],
                         "```js\nx + 22\n```", "ANSWER: done", options=["--fuel", "5e8"]).stdout
        for part in ("outcome: out_of_fuel", "results: 7 (i32)", "result:\n42\n", "── answer\ndone\n"):
            self.assertIn(part, text)
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        self.assertEqual((lines[0]["version"], lines[0]["languages"]), (2, ["js", "wat"]))
        self.assertEqual([line["language"] for line in lines if line["type"] == "program"], ["js", "js", "wat", "js"])
        done = self.membrane("agent", "--replay", "run.jsonl", "--fuel", "5e8")
        self.assertEqual(done.stderr, "")


class Served(CommandTest):
    """With a scripted model server over real HTTP, in a process of its own."""

    def serve(self, *answers):
        """Starts the server; returns the environment that names it."""
        self.server = subprocess.Popen([MODEL_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        self.server.stdin.write(json.dumps({"answers": answers}))
        self.server.stdin.close()
        port = int(self.server.stdout.readline())
        # It logs each request, and would stop at a full pipe.
        self.drain = threading.Thread(target=self.server.stdout.read)
        self.drain.start()
        return {"MEMBRANE_MODEL": "scripted", "MEMBRANE_BASE_URL": f"http://127.0.0.1:{port}/v1",
                "MEMBRANE_API_KEY": "the-key-of-this-test"}

    def stop(self):
        self.server.kill()
        self.server.wait()
        self.drain.join()
        self.server.stdout.close()

    @staticmethod
    def says(content):
        return {"json": {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
                         "usage": {"prompt_tokens": 10, "completion_tokens": 5}}}

    @staticmethod
    def streams(content, **how):
        half = len(content) // 2
        pieces = [{"choices": [{"delta": {"content": text}}]} for text in (content[:half], content[half:])]
        return {"events": [*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"], **how}


class AgentOverHttp(Served):
    def test_a_task_over_http_with_faults(self):
        program = fenced(Agent.PRINTS)["content"]
        environment = self.serve({"status": 503, "body": "busy"}, self.streams(program, split=7),
                                 {"status": 429, "headers": {"Retry-After": "0"}, "body": "slower"},
                                 self.says("ANSWER: 42"))
        done = self.membrane("agent", "task", "--json", "--transcript", "run.jsonl", **environment)
        result = json.loads(done.stdout)
        self.assertEqual((result["stop"], result["answer"]), ("answered", "42"))
        self.assertEqual(result["totals"]["steps"], 1)
        self.assertNotIn("the-key-of-this-test", done.stdout + done.stderr + (self.folder / "run.jsonl").read_text())
        self.assertEqual(self.membrane("agent", "--replay", "run.jsonl").stderr, "")

    def test_a_refusal_ends_with_cause_and_fix(self):
        environment = self.serve({"status": 401, "json": {"error": {"message": "wrong key the-key-of-this-test"}}})
        result = json.loads(self.membrane("agent", "task", "--json", code=2, **environment).stdout)
        self.assertEqual(result["stop"], "model_failed")
        self.assertIn("401", result["error"]["message"])
        self.assertIn("MEMBRANE_API_KEY", result["error"]["hint"])
        self.assertNotIn("the-key-of-this-test", json.dumps(result))

    def test_a_program_asks_the_model(self):
        environment = self.serve(self.says("four"))
        program = '(func (export "run") (call $io.print (call $ai.complete! (string "2+2?"))))'
        report = json.loads(self.membrane("run", "-e", program, "--allow", "ai", "--json", **environment).stdout)
        self.assertEqual((report["stdout"], report["tokens_used"]), ("four", 15))

    def test_an_interrupt_ends_the_task(self):
        environment = self.serve({"events": [{"choices": [{"delta": {"content": "I think"}}]}], "end": "stall"})
        process = subprocess.Popen([COMMAND, "agent", "task"], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.environment, **environment})
        self.addCleanup(self.end, process)
        self.assertIn("step 1", process.stdout.readline())
        self.assertEqual(process.stdout.read(len("I think")), "I think")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertIn("cancelled", output)
        self.assertEqual(process.returncode, 1)


class Conversation(Served):
    def test_tasks_and_commands_over_a_pipe(self):
        environment = self.serve(self.says(fenced(Agent.PRINTS)["content"]), self.says("ANSWER: It is 42."),
                                 self.says("ANSWER: Still 42."))
        done = self.membrane("agent", "--allow", "kv", **environment,
                             stdin="/policy\nWhat is it?\nAnd \\\nnow?\n/budget\n/save saved.jsonl\n/quit\nnever read\n")
        for part in ("key-value store", "forty-two", "It is 42.", "Still 42.", "Saved to saved.jsonl"):
            self.assertIn(part, done.stdout)
        self.assertRegex(done.stdout, r"  fuel +[\d,]+ left\n  host calls +[\d,]+ left\n")
        self.assertIn("  time          10 min for each task\n", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        lines = [json.loads(line) for line in (self.folder / "saved.jsonl").read_text().splitlines()]
        self.assertEqual([line["text"] for line in lines if line["type"] == "task"], ["What is it?", "And \nnow?"])

    def test_a_slip_in_a_command_is_answered(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: x"}\n')
        self.assertIn("Did you mean /budget?", self.membrane("agent", "--model-file", answers, stdin="/budgt\n").stdout)

    def test_the_end_of_the_input_leaves(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: from the file"}\n')
        self.assertIn("from the file", self.membrane("agent", "--model-file", answers, stdin="a task").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
