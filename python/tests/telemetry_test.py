"""Tests spans and metrics of sessions with OpenTelemetry's SDK in memory, the installed package and its extra "opentelemetry"."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import unittest

import membrane
from membrane import LATER, AsyncSession, MembraneError, Object, Pool, Session

try:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:
    trace = None

MARK = "chosen_by_the_guest"


def setUpModule():
    global spans, reader
    if trace is None:
        raise unittest.SkipTest("opentelemetry-sdk is not installed")
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None
    before = Session()  # a session that is older than the providers counts, too
    before.run("1").check()
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    before.run("1").check()
    assert [each.name for each in spans.get_finished_spans()] == ["run python"]
    before.close()


def points():
    """Returns the current values by the metric's name."""
    data = reader.get_metrics_data()
    found = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics if scope.scope.name == "membrane" else ():
                found[metric.name] = (metric.unit, list(metric.data.data_points))
    return found


def total(name, **attributes):
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}
    _, found = points().get(name, ("", []))
    return sum(getattr(each, "value", None) if hasattr(each, "value") else each.count
               for each in found if wanted.items() <= dict(each.attributes).items())


class Spans(unittest.TestCase):
    def setUp(self):
        spans.clear()

    def spans(self):
        return {each.name: each for each in spans.get_finished_spans()}

    def test_a_turn(self):
        with Session(functions={"price": lambda item: 350}) as session:
            result = session.run("price('tea') * 2")
        run = self.spans()["run python"]
        self.assertEqual(dict(run.attributes), {
            "membrane.language": "python", "membrane.outcome": "ok", "membrane.fuel": result.fuel, "membrane.host_calls": 1,
            "membrane.memory.peak": result.report["memory_peak_bytes"]})
        self.assertEqual((run.kind, run.status.status_code), (SpanKind.INTERNAL, StatusCode.UNSET))
        self.assertEqual((run.instrumentation_scope.name, run.instrumentation_scope.version), ("membrane", membrane.__version__))
        self.assertGreater(run.end_time, run.start_time)

    def test_calls_are_children_and_parents(self):
        def price(item):
            with trace.get_tracer("shop").start_as_current_span("look up"):
                return 350

        async def rate():
            with trace.get_tracer("shop").start_as_current_span("ask"):
                await asyncio.sleep(0)
            return 1.5

        with trace.get_tracer("agent").start_as_current_span("turn of the agent"):
            with Session(functions=[price], modules={"bank": {"rate": rate}}) as session:
                session.run("import asyncio\nfrom bank import rate\nprice('tea')\nawait asyncio.gather(rate(), rate())").check()
        made = self.spans()
        for child, parent in (("run python", "turn of the agent"), ("call price", "run python"), ("look up", "call price"),
                              ("call bank.rate", "run python"), ("ask", "call bank.rate")):
            parents = [each.context.span_id for each in spans.get_finished_spans() if each.name == parent]
            self.assertIn(made[child].parent.span_id, parents, child)
        self.assertEqual(dict(made["call bank.rate"].attributes), {"code.function.name": "bank.rate"})
        self.assertEqual(len([each for each in spans.get_finished_spans() if each.name == "call bank.rate"]), 2)

    def test_objects(self):
        class Account:
            balance = 1

            def deposit(self, amount):
                return amount

        with Session(inputs={"account": Object(Account(), methods=["deposit"], attributes=["balance"])}) as session:
            session.run("account.deposit(1), account.balance").check()
        self.assertLessEqual({"call Account.deposit", "call Account.balance"}, set(self.spans()))

    def test_failures(self):
        def fail():
            raise LookupError("the text of an error")

        with Session(functions=[fail, len], gate=lambda call: call.name != "len", limits={"fuel": "2e9"}) as session:
            session.run("fail()")
            session.run("len([])")
            session.run("while True: pass")
        made = self.spans()
        self.assertEqual(made["call fail"].attributes["error.type"], "LookupError")
        self.assertEqual(made["call len"].attributes["error.type"], "PermissionError")
        runs = [each for each in spans.get_finished_spans() if each.name == "run python"]
        self.assertEqual([each.attributes["error.type"] for each in runs], ["raised", "raised", "out_of_fuel"])
        for each in spans.get_finished_spans():
            self.assertEqual((each.status.status_code, each.status.description, each.events), (StatusCode.ERROR, None, ()))

    def test_calls_that_wait(self):
        with Session(functions={"approve": LATER}) as session:
            session.start("approve(1)").resume(True)
        made = self.spans()
        self.assertEqual(made["start python"].attributes["membrane.outcome"], "waiting")
        self.assertEqual(made["start python"].status.status_code, StatusCode.UNSET)
        self.assertEqual(made["resume python"].attributes["membrane.outcome"], "ok")
        self.assertEqual(made["call approve"].attributes["membrane.outcome"], "waiting")

    def test_no_guest_chooses_a_value(self):
        class Box:
            def open(self, name):
                raise KeyError(name)

        forged = f"from membrane import _door\n_door.ask({{'functions': [{{'call': '{MARK}', 'object': 1}}, {{'call': '{MARK}'}}]}})"
        with Session(functions={"echo": lambda each: each}, inputs={"box": Object(Box(), methods=["open"])}, type_check=False) as session:
            for code in (f"{MARK} = '{MARK}'\nprint({MARK})\necho({MARK})", f"raise type('{MARK}', (Exception,), {{}})('{MARK}')",
                         f"box.open('{MARK}')", f"echo(**{{'{MARK}': 1}})", forged, f"open('/tmp/{MARK}', 'w').close()",
                         f"class {MARK}(Exception): pass\nraise {MARK}"):
                session.run(code)
            session.start(f"{MARK}2()").fail(ValueError(MARK))
        said = "".join(each.to_json() for each in spans.get_finished_spans()) + repr(points())
        self.assertIn("call echo", said)
        self.assertNotIn(MARK, said)

    def test_asyncio(self):
        async def main():
            async def rate():
                with trace.get_tracer("shop").start_as_current_span("ask"):
                    return 1.5

            async with AsyncSession(functions=[rate]) as session:
                with trace.get_tracer("agent").start_as_current_span("turn of the agent"):
                    await session.run("await rate()")

        asyncio.run(main())
        made = self.spans()
        for child, parent in (("ask", "call rate"), ("call rate", "run python"), ("run python", "turn of the agent")):
            self.assertEqual(made[child].parent.span_id, made[parent].context.span_id, child)

    def test_a_cell_whose_types_are_wrong(self):
        with contextlib.ExitStack() as stack:
            try:
                session = stack.enter_context(Session(type_check=True))
            except MembraneError as error:
                self.skipTest(str(error))
            session.run("1 + 'a'")
        self.assertEqual(self.spans()["run python"].attributes["membrane.outcome"], "invalid")


class Metrics(unittest.TestCase):
    def test_runs_by_outcome(self):
        runs = "membrane.session.runs"
        before = [total(runs, membrane__outcome=each) for each in ("ok", "raised")]
        fuel, took = total("membrane.session.run.fuel"), total("membrane.session.run.duration")
        with Session() as session:
            session.run("1")
            session.run("1 / 0")
            session.run("2")
        self.assertEqual([total(runs, membrane__outcome=each) for each in ("ok", "raised")], [before[0] + 2, before[1] + 1])
        self.assertEqual((total("membrane.session.run.fuel"), total("membrane.session.run.duration")), (fuel + 3, took + 3))
        found = points()
        self.assertEqual([found[name][0] for name in (runs, "membrane.session.run.duration", "membrane.session.run.fuel")],
                         ["{run}", "s", "{fuel}"])
        self.assertEqual(found["membrane.session.run.duration"][1][0].explicit_bounds[0], 0.001)

    def test_functions(self):
        with Session(functions={"price": lambda item: 350}) as session:
            before = total("membrane.function.duration", code__function__name="price")
            session.run("price('a'), price('b')")
        self.assertEqual(total("membrane.function.duration", code__function__name="price"), before + 2)

    def test_open_sessions(self):
        gc.collect()
        before = total("membrane.session.count")
        session = Session()
        branch = session.fork()
        self.assertEqual(total("membrane.session.count", membrane__language="python"), before + 2)
        session.close()
        session.close()
        del branch
        gc.collect()
        self.assertEqual(total("membrane.session.count"), before)

    def test_pools(self):
        count = "membrane.pool.session.count"
        with Pool(size=1, max_sessions=1) as pool, pool.session():
            self.assertEqual(total(count, membrane__pool__session__state="used"), 1)
            self.assertEqual(total("membrane.pool.session.wait_time"), 1)
        self.assertEqual(total(count), 0)


class Without(unittest.TestCase):
    def ran(self, program):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    def test_nothing_is_imported(self):
        program = ("import sys, membrane\nwith membrane.Session(functions={'f': len}) as session: session.run('f([])').check()\n"
                   "print([name for name in sys.modules if name.startswith('opentelemetry')])")
        self.assertEqual(self.ran(program), "[]\n")

    def test_no_provider(self):
        program = ("import membrane, opentelemetry.trace\n"
                   "with membrane.Session(functions={'f': len}) as session: print(session.run('f([1])').check().text)")
        self.assertEqual(self.ran(program), "1\n")

    def test_a_package_of_that_name_alone(self):
        program = ("import sys, types\nsys.modules['opentelemetry.trace'] = types.ModuleType('opentelemetry.trace')\n"
                   "sys.modules['opentelemetry.metrics'] = None\nimport membrane\n"
                   "with membrane.Session() as session: print(session.run('1').check().text)")
        self.assertEqual(self.ran(program), "1\n")


if __name__ == "__main__":
    unittest.main()
