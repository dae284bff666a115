// Sessions in Python: what only that language has.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sandbox/session/session_testing.h"

namespace membrane::sandbox {
namespace {

class Python : public OneLanguage {
 protected:
  Python() : OneLanguage("python") {}
};

TEST_F(Python, ExitingIsNotAFailure) {
  exec("x = 20");
  const Report ended = exec("import sys\nsys.exit(3)");
  EXPECT_EQ(ended.outcome, Outcome::kOk);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(exec("x").result, "20");
  const Report gone = exec("x = 1\nimport os\nos._exit(4)");
  EXPECT_EQ(gone.outcome, Outcome::kRaised);
  EXPECT_EQ(gone.exit_code, 4);
  EXPECT_EQ(exec("x").result, "20") << "as before the turn that ended the interpreter";
}

TEST_F(Python, ASleepWithoutTimeSaysWhereItWas) {
  RunOptions hurried = session_options();
  hurried.policy.time.real = true;
  hurried.policy.limits.wall_ms = 500;
  begin(hurried);
  for (const char* const sleeps : {"import time\ntry:\n  time.sleep(60)\nexcept OSError: pass",
                                   "import time\ndef f():\n  time.sleep(60)\nf()"}) {
    const Report report = session_->exec({.code = sleeps, .name = "/sleeps"});
    EXPECT_EQ(report.outcome, Outcome::kTimedOut);
    ASSERT_EQ(report.errors.size(), 1u);
    EXPECT_EQ(report.errors[0].place.file, "/sleeps") << sleeps;
    EXPECT_EQ(report.errors[0].place.line, 3u) << sleeps;
  }
}

TEST_F(Python, OutputThatIsNotTextCountsByItsBytes) {
  RunOptions options = session_options();
  options.policy.limits.output_bytes = 100;
  begin(options);
  const std::string writes = "import os; _ = os.write(1, b'\\xff' * 90)";
  EXPECT_EQ(exec(writes).outcome, Outcome::kOk);
  const Report report = exec(writes + "\n'0123'");
  EXPECT_EQ(report.outcome, Outcome::kOk);
  EXPECT_EQ(report.stdout_text.size(), 270u);
  EXPECT_EQ(report.result, "'0123'");
  EXPECT_EQ(report.output_bytes_cut, 0u);
  EXPECT_EQ(exec(writes + "\n'0123456789'").outcome, Outcome::kOutOfOutput);
}

TEST_F(Python, ItsTextIsUtf8) {
  EXPECT_EQ(exec("\xEF\xBB\xBF"
                 "6 + 1")
                .result,
            "7");
  const Report report = session_->exec({.code = "x = 1\n'caf\xE9'", .name = "latin.py"});
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(report.errors.at(0).message, "latin.py is not UTF-8: line 2 has the byte 0xE9");
  EXPECT_EQ(exec("'caf\xE9'").errors.at(0).message, "the program is not UTF-8: line 1 has the byte 0xE9");
}

TEST_F(Python, IsGivenInputAndArguments) {
  const Report report = session_->exec({.code = "import sys\nprint(sys.argv[1:], input('name? '), input())",
                                        .name = "greet.py",
                                        .is_script = true,
                                        .arguments = {"a", "b"},
                                        .input = "Ada\nLovelace\n"});
  EXPECT_EQ(report.stdout_text, "name? ['a', 'b'] Ada Lovelace\n");
  EXPECT_EQ(exec("input()").errors.at(0).code, "EOFError");
}

TEST_F(Python, ImportsFromFilesThatAreMountedOverItsOwn) {
  constexpr std::string_view kSource = "value = 42\n",
                             kShadow = "raise ImportError('in the place of what is built in')\n";
  const auto bytes = [](std::string_view text) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  const auto over = Template::over(template_,
                                   {{.path = "/packages/given.py", .bytes = bytes(kSource)},
                                    {.path = "/packages/colorsys.py", .bytes = bytes(kShadow)}},
                                   "/packages");
  ASSERT_TRUE(over) << over.error().message;
  const auto session = Session::create(*over, {});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->exec({.code = "import given, colorsys; given.value"}).result, "42");
  const auto fork = (*session)->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "open('/packages/given.py').read()"}).result, "'value = 42\\n'");
}

TEST_F(Python, AnImportThatIsNotFoundSaysHowToHaveIt) {
  const auto session = Session::create(template_, {});
  ASSERT_TRUE(session);
  const Report report = (*session)->exec({.code = "import rich"});
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_NE(report.errors[0].hint.find("python = [\"rich\"] under [packages]"), std::string::npos)
      << report.errors[0].hint;
  EXPECT_EQ(report.errors[0].traceback.find("Site initialization"), std::string::npos)
      << report.errors[0].traceback;
}

TEST_F(Python, FilesThatItMakesAreListedAndCanBeFetched) {
  ASSERT_TRUE(session_->put_file("/tmp/in.csv", "a,b\n1,2\n"));
  const Report report = exec(
      "import csv\nrows = list(csv.DictReader(open('/tmp/in.csv')))\nopen('/tmp/out.txt', "
      "'w').write(rows[0]['b'])");
  ASSERT_EQ(report.files.size(), 2u);
  EXPECT_EQ(report.files[1].path, "/tmp/out.txt");
  EXPECT_EQ(session_->read_file("/tmp/out.txt").value(), "2");
  EXPECT_FALSE(session_->read_file("/etc/passwd"));
}

TEST_F(Python, ShowsRichValues) {
  const Report chart = exec("from membrane import chart\nchart.line([1, 2, 3])");
  EXPECT_TRUE(
      std::ranges::any_of(chart.value, [](const MimePart& part) { return part.type == "image/svg+xml"; }));
  const Report shown = exec("display({'a': 1})\nclass T:\n  def _repr_html_(self): return '<b>t</b>'\nT()");
  ASSERT_EQ(shown.displays.size(), 1u);
  EXPECT_TRUE(std::ranges::any_of(
      shown.value, [](const MimePart& part) { return part.type == "text/html" && part.data == "<b>t</b>"; }));
}

TEST_F(Python, HasNothingOfTheHostsEnvironment) {
  EXPECT_EQ(setenv("MEMBRANE_TEST_SECRET", "hunter2", 1), 0);
  begin(session_options());
  EXPECT_EQ(exec("import os\n'hunter2' in str(os.environ)").result, "False");
  EXPECT_EQ(exec("os.path.exists('/proc') or os.path.exists('/etc/passwd')").result, "False");
}

TEST_F(Python, AForkSharesNoFileOffset) {
  exec("f = open('/tmp/shared', 'w+b', buffering=0)\nf.write(b'0123456789')\nf.seek(2)");
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ(exec("f.read(3)").result, "b'234'");
  EXPECT_EQ((*fork)->exec({.code = "f.read(3)"}).result, "b'234'");
  exec("f.write(b'XX')");
  EXPECT_EQ((*fork)->exec({.code = "f.seek(0); f.read()"}).result, "b'0123456789'");
}

TEST_F(Python, AForkHasTheClockOfItsOwnRun) {
  exec("import time\nbefore = time.monotonic()");
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "time.monotonic() >= before"}).result, "True");
  EXPECT_EQ(exec("time.sleep(3600)\ntime.monotonic() - before > 3599").result, "True");
  EXPECT_EQ((*fork)->exec({.code = "time.monotonic() - before < 1"}).result, "True");
}

TEST_F(Python, AForkAndItsParentSeeWhatEitherWritesToAGrantedDirectory) {
  const std::string directory = ::testing::TempDir() + "membrane-both-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  exec("with open('/data/a', 'w') as f: f.write('of the parent')");
  EXPECT_EQ((*fork)->exec({.code = "open('/data/a').read()"}).result, "'of the parent'");
  (*fork)->exec({.code = "with open('/data/b', 'w') as f: f.write('of the fork')"});
  EXPECT_EQ(exec("open('/data/b').read()").result, "'of the fork'");
  std::filesystem::remove_all(directory);
}

TEST_F(Python, HashesOfTextsAreTheTemplatesInEveryFork) {
  const std::string hash = exec("hash('membrane')").result;
  auto fork = session_->fork(9);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "hash('membrane')"}).result, hash);
}

TEST_F(Python, ReadsAGrantedDirectoryAndNoOther) {
  const std::string directory = ::testing::TempDir() + "membrane-data-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/log.csv") << "level,count\nerror,3\nerror,4\n";
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  EXPECT_EQ(exec("import csv\nsum(int(r['count']) for r in csv.DictReader(open('/data/log.csv')))").result,
            "7");
  const Report denied = exec("open('/data/new.txt', 'w')");
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_FALSE(std::filesystem::exists(directory + "/new.txt"));
  std::filesystem::remove_all(directory);
}

TEST_F(Python, AWriteBelowAGrantToReadIsADenial) {
  const std::string directory = ::testing::TempDir() + "membrane-read-only-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  for (const char* const code : {"open('/data/new.txt', 'w')", "import os\nos.mkdir('/data/x')"}) {
    const Report report = exec(code);
    EXPECT_EQ(report.outcome, Outcome::kDenied) << code;
    EXPECT_EQ(report.errors.at(0).hint, "It would be allowed by --allow fs:write:" + directory + ":/data")
        << code;
  }
  std::filesystem::remove_all(directory);
}

TEST_F(Python, WhatTheTrifectaRuleHoldsBackIsDenied) {
  begin(held_back(session_options()));
  EXPECT_EQ(session_->exec({.code = "1", .input = "given"}).outcome, Outcome::kOk);
  for (const char* const code : {"from membrane import http\nhttp.get('https://example.org/')",
                                 "import requests\nrequests.get('https://example.org/')",
                                 "import urllib.request\nurllib.request.urlopen('https://example.org/')"}) {
    const Report report = exec(code);
    EXPECT_EQ(report.outcome, Outcome::kDenied) << code;
    EXPECT_NE(report.errors.at(0).message.find("The trifecta rule"), std::string::npos)
        << render_text(report, false);
    EXPECT_EQ(report.errors.at(0).hint, "") << "no grant helps";
  }
  EXPECT_EQ(exec("try:\n  http.get('https://example.org/')\nexcept PermissionError: pass\n1 / 0").outcome,
            Outcome::kRaised);
}

TEST_F(Python, AMissingFileIsReportedWithWhatIsGranted) {
  const Report nowhere = exec("open('/nowhere/x.csv')");
  EXPECT_EQ(nowhere.outcome, Outcome::kRaised) << "as the language knows it";
  EXPECT_EQ(nowhere.errors.at(0).hint,
            "No file or directory of the host is granted. It would be allowed by --allow "
            "fs:read:HOST_DIRECTORY:/nowhere");
  const std::string directory = ::testing::TempDir() + "membrane-hint-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  run_options.policy.fs.push_back({.guest = "/out", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  EXPECT_EQ(exec("open('/data/x.csv')").errors.at(0).hint,
            "Directories of the host are granted at /data (read), /out (read and write).");
  EXPECT_EQ(exec("raise FileNotFoundError('gone')").errors.at(0).hint, "") << "no path";
  const Report own = exec("open('/tmp/x.csv')");
  EXPECT_EQ(own.outcome, Outcome::kRaised);
  EXPECT_EQ(own.errors.at(0).hint, "/tmp is the program's own: it has what programs have put there.");
  std::filesystem::remove_all(directory);
}

TEST_F(Python, AMissingDirectoryIsReportedWithWhatMakesIt) {
  begin(session_options());
  for (const auto& [code, directory] :
       {std::pair("open('/nope/x.csv', 'w')", "/nope"), std::pair("open('nope/a/x.csv', 'w')", "/nope/a")}) {
    const std::string hint = exec(code).errors.at(0).hint;
    EXPECT_TRUE(hint.starts_with("There is no directory " + std::string(directory) +
                                 " in the sandbox: os.makedirs makes it. No file or directory of the host"))
        << hint;
  }
  EXPECT_EQ(
      exec("open('/tmp/nope/x.csv', 'w')").errors.at(0).hint,
      "/tmp is the program's own: it has what programs have put there. There is no directory /tmp/nope in "
      "the sandbox: os.makedirs makes it.");
  EXPECT_EQ(exec("import os\nos.makedirs('/nope')\nopen('/nope/x.csv', 'w').close()").outcome, Outcome::kOk);
}

TEST_F(Python, AnErrorCostsLittle) {
  const uint64_t without = exec("x = 1").fuel_used;
  for (const char* const code : {"1 / 0", "nosuch", "x.nosuch", "import nosuch", "x = = 1",
                                 "def f(n): return f(n - 1) if n else {}['k']\nf(3)"})
    EXPECT_LT(exec(code).fuel_used, without + 5'500'000) << code;
  const Report deep = exec("def f(n): return f(n + 1)\nf(0)");
  EXPECT_EQ(deep.errors.at(0).code, "RecursionError");
  EXPECT_LT(deep.fuel_used, 150'000'000u) << "a thousand frames, of which three are shown";
}

TEST_F(Python, ThreadsWaitForEachOtherAndForServersTogether) {
  const Report report = exec(R"(
import queue, requests, threading, time
from concurrent.futures import ThreadPoolExecutor
q, got = queue.Queue(maxsize=1), []
def consume():
    for item in iter(q.get, None):
        got.append(item)
def produce():
    for i in range(5):
        time.sleep(0.1)
        q.put(i)
    q.put(None)
threads = [threading.Thread(target=f) for f in (consume, produce)]
for t in threads: t.start()
for t in threads: t.join()
def fetch(n):
    try:
        return requests.get(f"http://127.0.0.1:1/{n}").text
    except PermissionError:
        return n
with ThreadPoolExecutor() as pool:
    got += pool.map(fetch, "ab")
got)");
  EXPECT_EQ(report.result, "[0, 1, 2, 3, 4, 'a', 'b']");
  ASSERT_EQ(report.host_calls.size(), 2u) << "one for each request";
  EXPECT_EQ(report.host_calls[1].name, "http.get_many");
  EXPECT_EQ(report.host_calls[1].arguments, "GET, http://127.0.0.1:1/b");
  EXPECT_FALSE(report.host_calls[1].allowed);
}

TEST_F(Python, CallsOfFilesAreListedWhereTheyHappened) {
  const std::string directory = ::testing::TempDir() + "membrane-calls-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/a") << "a";
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  run_options.policy.kv.emplace();
  begin(run_options);
  const Report report =
      exec("from membrane import kv\nkv.set('a', '1')\nopen('/data/a').read()\nkv.set('b', '2')");
  std::string names;
  for (const HostCallRecord& call : report.host_calls)
    if (call.name == "kv.set" || call.name == "fs.open") names += call.name + " ";
  EXPECT_EQ(names, "kv.set fs.open kv.set ");
  std::filesystem::remove_all(directory);
}

// The memory of a session after its turn.
struct MemoryUsed {
  uint64_t linear_bytes = 0;
  uint64_t private_bytes = 0;
};

TEST_F(Python, AGrantedFileOfAnySizeIsReadInTheSameMemory) {
  const std::string directory = ::testing::TempDir() + "membrane-csv-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = session_options();
  run_options.policy.limits.fuel = 100'000'000'000;
  run_options.policy.limits.bytes_in = 1u << 30;
  run_options.policy.fs.push_back({.guest = "/data", .host = directory, .max_file_bytes = 1u << 30});
  const auto read = [&](size_t bytes) {
    const std::string row = "4,\"" + std::string(1000, 'x') + "\"\n";
    const size_t rows = bytes / row.size();
    std::ofstream file(directory + "/log.csv");
    for (size_t i = 0; i < rows; ++i) file << row;
    file.close();
    begin(run_options);
    const Report report = exec(
        "import csv\nwith open('/data/log.csv', newline='') as file:\n"
        "  total = sum(int(row[0]) for row in csv.reader(file))\ntotal");
    EXPECT_EQ(report.result, std::to_string(4 * rows));
    return MemoryUsed{report.memory_peak_bytes, session_->private_bytes().value_or(0)};
  };
  const MemoryUsed small = read(4u << 20), large = read(64u << 20);
  EXPECT_EQ(large.linear_bytes, small.linear_bytes);
  // A reused region has some pages already.
  EXPECT_LT(large.private_bytes, small.private_bytes + (256u << 10));
  std::filesystem::remove_all(directory);
}

// Most of it is never written, so that the machine need not have as much memory.
TEST_F(Python, MemoryReachesTheEndOfItsAddressesAndBeyondIsAnError) {
  RunOptions run_options = session_options();
  run_options.policy.limits.memory_bytes = uint64_t{4} << 30;
  begin(run_options);
  const Report held = exec(
      "import numpy as np\nheld = [np.empty(1 << 30, dtype=np.uint8) for _ in range(3)]\n"
      "held[-1][-1] = 7\nsum(part.nbytes for part in held)");
  EXPECT_EQ(held.result, std::to_string(uint64_t{3} << 30));
  EXPECT_GT(held.memory_peak_bytes, uint64_t{3} << 30);
  EXPECT_EQ(exec("try: bytearray(1 << 30)\nexcept MemoryError: caught = 20\ncaught").result, "20");
  const Report beyond = exec("bytearray(1 << 30)");
  EXPECT_EQ(beyond.outcome, Outcome::kOutOfMemory);
  ASSERT_EQ(beyond.errors.size(), 1u);
  EXPECT_EQ(beyond.errors[0].code, "MemoryError");
  EXPECT_NE(beyond.errors[0].hint.find("limit is 4 GiB"), std::string::npos) << beyond.errors[0].hint;
  EXPECT_EQ(exec("int(held[-1][-1]), caught").result, "(7, 20)");
  for (const char* const code : {"bytearray(10 << 30)", "'a' * (10 << 30)", "np.ones((40000, 40000))"}) {
    const Report too_large = exec(code);
    ASSERT_EQ(too_large.errors.size(), 1u) << code;
    EXPECT_TRUE(too_large.errors[0].hint.starts_with("Memory has 32-bit addresses here")) << code;
  }
}

TEST_F(Python, AWarmImageMayHaveImportedAlready) {
  auto package = *lang::find_package("python");
  package.name = "python-with-numpy";
  package.init = "__import__(\"numpy\")\n";
  const TemplateOptions where{
      .cache_directory = template_cache(), .tier = engine::Tier::kAuto, .on_progress = {}};
  auto opened = Template::open(package, where);
  ASSERT_TRUE(opened) << opened.error().message;
  const uint64_t cold = exec("import numpy\nint(numpy.arange(10).sum())").fuel_used;
  template_ = *opened;
  begin(session_options());
  EXPECT_EQ(exec("'numpy' in globals()").result, "False");
  const Report warm = exec("import numpy\nint(numpy.arange(10).sum())");
  EXPECT_EQ(warm.result, "45");
  EXPECT_LT(warm.fuel_used * 20, cold);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  const char* const draw = "float(numpy.random.random())";
  EXPECT_NE((*fork)->exec({.code = draw}).result, exec(draw).result) << "seeded anew";
}

// matplotlib unpacks its fonts and writes a list of them when it is imported.
TEST_F(Python, AWarmImageKeepsTheFilesThatWereMade) {
  const auto package = *lang::find_package("python");
  const TemplateOptions where{
      .cache_directory = template_cache(), .tier = engine::Tier::kAuto, .on_progress = {}};
  for (int round = 0; round < 2; ++round) {  // built first, then found
    auto opened = Template::open(package, where, {"matplotlib.font_manager"});
    ASSERT_TRUE(opened) << opened.error().message;
    template_ = *opened;
    begin(session_options());
    const Report report = exec(
        "import matplotlib.font_manager as fonts, os\n"
        "path = fonts.findfont('DejaVu Sans')\n"
        "os.path.getsize(path) > 100_000, open(path, 'rb').read(4)");
    EXPECT_EQ(report.result, "(True, b'\\x00\\x01\\x00\\x00')") << render_text(report, false);
    EXPECT_TRUE(report.files.empty()) << "the session has made none";
    EXPECT_LT(report.fuel_used, 200'000'000u);
    const auto fork = session_->fork(1);
    ASSERT_TRUE(fork);
    EXPECT_EQ((*fork)->exec({.code = "os.remove(path); os.path.exists(path)"}).result, "False");
    EXPECT_EQ(exec("os.path.exists(path)").result, "True") << "each has its own view";
  }
  const auto refused = Template::open(package, where, {"no_such_module"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no_such_module cannot be imported: ModuleNotFoundError"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(Python, APathThatLeadsOutIsDeniedWithWhatWouldHelp) {
  begin(session_options());
  const Report report = exec("open('../data.csv')");
  EXPECT_EQ(report.outcome, Outcome::kDenied) << render_text(report, false);
  EXPECT_NE(report.errors.at(0).hint.find("--allow fs:read:../data:/data"), std::string::npos);
}

// A figure is returned once: as the file that the program saved, or else as a display.
TEST_F(Python, AFigureThatIsSavedIsDisplayedOnlyWhenItIsShown) {
  RunOptions roomy = session_options();
  roomy.policy.limits.fuel = 100'000'000'000;
  roomy.policy.limits.memory_bytes = 512ull << 20;
  begin(roomy);
  const std::string draw = "import matplotlib.pyplot as plt; line = plt.plot([1, 2]); ";
  EXPECT_EQ(exec(draw + "plt.savefig('/a.png')").displays.size(), 0u);
  EXPECT_EQ(exec(draw + "plt.savefig('/b.png'); plt.show()").displays.size(), 1u);
  EXPECT_EQ(exec(draw + "import io; plt.savefig(io.BytesIO())").displays.size(), 1u);
  EXPECT_EQ(exec(draw).displays.size(), 1u);
  EXPECT_EQ(exec("plt.get_fignums()").result, "[]");
}

// The generator that a program seeded is part of its state, like any other object.
TEST_F(Python, AGeneratorThatTheProgramSeededIsAsBeforeTheTurnThatWasUndone) {
  const struct {
    const char *seed, *draw;
  } kGenerators[] = {{"import random; random.seed(7)", "random.random()"},
                     {"import random; random.seed(7); state = random.getstate(); random.seed(); "
                      "random.setstate(state)",
                      "random.gauss(0, 1)"},
                     {"import numpy; numpy.random.seed(7)", "float(numpy.random.random())"},
                     {"import random; own = random.Random(7)", "own.random()"}};
  for (const bool is_real : {false, true}) {
    RunOptions with = session_options();
    with.policy.random.real = is_real;
    for (const auto& [seed, draw] : kGenerators) {
      begin(with);
      exec(seed);
      std::vector<std::string> expected;
      for (int i = 0; i < 4; ++i) expected.push_back(exec(draw).result);
      begin(with);
      EXPECT_EQ(exec(seed).outcome, Outcome::kOk);
      EXPECT_EQ(exec(draw).result, expected[0]) << seed;
      EXPECT_EQ(exec(std::string(draw) + "\nimport os; os._exit(1)").outcome, Outcome::kRaised);
      EXPECT_EQ(exec(draw).result, expected[1]) << seed << ": as if the turn had not been";
      auto fork = session_->fork(1);
      ASSERT_TRUE(fork);
      EXPECT_EQ(exec(draw).result, expected[2]) << seed;
      EXPECT_EQ((*fork)->exec({.code = draw}).result, expected[2]) << seed << ": a fork has its state";
      EXPECT_EQ(exec(std::string(draw) + "; 1 / 0").outcome, Outcome::kRaised) << "which undoes nothing";
      EXPECT_NE(exec(draw).result, expected[3]) << seed;
    }
  }
}

TEST_F(Python, ATurnThatAsksForAnotherIsNotRunAgain) {
  exec(
      "from membrane import _door\n"
      "try: _door.ask({'session': 'next'})\n"
      "except OSError as error: said = str(error)");
  EXPECT_EQ(exec("while True: pass").outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(exec("said").result, "'there is no turn to run (ENOENT)'");
}

TEST_F(Python, AGeneratorThatNobodySeededIsSeededAgainAfterAStepBack) {
  exec("import random; random.seed(7); random.seed()");
  const std::string draw = "random.random()";
  const Report undone = exec("print(random.random(), flush=True)\nimport os; os._exit(1)");
  ASSERT_EQ(undone.outcome, Outcome::kRaised);
  EXPECT_NE(exec(draw).result + "\n", undone.stdout_text);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_NE((*fork)->exec({.code = draw}).result, exec(draw).result);
}

TEST_F(Python, TheScientificStackIsInstalled) {
  EXPECT_EQ(exec("import numpy as np\nint(np.arange(10).sum())").result, "45");
}

TEST_F(Python, ProgressBarsOfTqdmAreBarsAndNothingElse) {
  const Report report = exec(R"py(
import time
begun = time.monotonic()
from tqdm import tqdm
from tqdm.auto import trange
for i in tqdm(range(10)): pass
for i in trange(2, desc='outer'):
  for j in tqdm(range(2), desc='inner', leave=False): time.sleep(0.1)
from tqdm.contrib.concurrent import process_map, thread_map
(time.monotonic() - begun < 5, process_map(abs, [-1, -2]), thread_map(abs, [-3])))py");
  EXPECT_EQ(report.result, "(True, [1, 2], [3])") << report.stderr_text;
  EXPECT_NE(report.stderr_text.find("100%|"), std::string::npos);
  EXPECT_NE(report.stderr_text.find(" 10/10 ["), std::string::npos);
  for (const char* const word : {"Exception", "Traceback", "Warning"})
    EXPECT_EQ(report.stderr_text.find(word), std::string::npos) << report.stderr_text;
}

TEST_F(Python, FilesThatItMakesHaveTheRealTimeWhereItIsGranted) {
  RunOptions granted = session_options();
  granted.policy.time.real = true;
  host::Journal journal;
  granted.record = &journal;
  begin(granted);
  constexpr const char* kCode =
      "_ = open('/tmp/a', 'w').write('a')\nimport os\nos.stat('/tmp/a').st_mtime_ns";
  const std::string made = exec(kCode).result;
  EXPECT_GT(std::stoull(made), 1'577'836'800'000'000'000u);
  RunOptions replay = session_options();
  replay.policy.time.real = true;
  replay.replay = &journal;
  begin(replay);
  EXPECT_EQ(exec(kCode).result, made);
  begin(session_options());
  EXPECT_EQ(exec(kCode).result.substr(0, 9), "946684800") << "without the grant the clock is the virtual one";
}

std::string branches(int count) {
  std::string code;
  for (int i = 1; i <= count; ++i) code += "elif x == " + std::to_string(i) + ": pass\n";
  return code;
}

// CPython frees a nested dictionary by nested calls.
constexpr const char* kDeep = "x = {}\nfor _ in range(100_000): x = {'k': x}\ndel x\n'freed'";

TEST_F(Python, AStructureThatIsNestedDeepIsFreed) {
  EXPECT_EQ(exec(kDeep).result, "'freed'");
  EXPECT_EQ(exec("x = []\nfor _ in range(100_000): x = [x]\ndel x\n'freed'").result, "'freed'");
}

// As deep as on a machine with Linux's usual stack, where the limit of calls ends them.
TEST_F(Python, FunctionsInCCallThemselvesAsDeepAsOnAMachine) {
  EXPECT_EQ(exec("import functools\n@functools.lru_cache(None)\n"
                 "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(300) % 1000")
                .result,
            "600");
  EXPECT_EQ(exec("x = 500\nif x == 0: pass\n" + branches(300) + "'chosen'").result, "'chosen'");
  EXPECT_EQ(exec("eval('+'.join(['1'] * 2000))").result, "2000");
  const Report endless = exec("class Own:\n  def __repr__(self): return repr(self)\nrepr(Own())");
  EXPECT_EQ(endless.errors.at(0).code, "RecursionError") << render_text(endless, false);
}

TEST_F(Python, StackLimitsApplyWhereTheyAreSet) {
  for (const auto& [depth, stack_bytes] :
       {std::pair<uint64_t, uint64_t>{1000, 64u << 20}, {1'000'000, 64u << 10}}) {
    RunOptions run_options = session_options();
    run_options.policy.limits.call_depth = depth;
    run_options.policy.limits.stack_bytes = stack_bytes;
    begin(run_options);
    exec("y = 20");
    EXPECT_EQ(exec(kDeep).outcome, Outcome::kTrapped);
    EXPECT_EQ(exec("y").result, "20");
  }
}

TEST_F(Python, ItsExecutableIsAFile) {
  EXPECT_EQ(exec("import sys, os, platform\nos.path.isfile(sys.executable), platform.libc_ver()").result,
            "(True, ('', ''))");
}

TEST_F(Python, ALockThatIsTakenTwiceIsAnErrorAndTheSessionContinues) {
  const Report failed = exec("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()");
  EXPECT_EQ(failed.outcome, Outcome::kRaised);
  ASSERT_EQ(failed.errors.size(), 1u);
  EXPECT_EQ(failed.errors[0].code, "RuntimeError");
  EXPECT_NE(failed.errors[0].message.find("deadlock"), std::string::npos);
  EXPECT_EQ(exec("lock.locked(), lock.release(), lock.locked()").result, "(True, None, False)");
}

TEST_F(Python, NamesAreCompletedAndNothingStays) {
  exec(
      "import sys\n"
      "class Watched:\n"
      "    def __getattr__(self, name):\n"
      "        print('asked'); open('/made', 'w').close(); sys.seen = True\n"
      "        return 'text'\n"
      "    @property\n"
      "    def loop(self):\n"
      "        while True: pass\n"
      "    @property\n"
      "    def net(self):\n"
      "        from membrane import http\n"
      "        return http.get('http://127.0.0.1:1/page')\n"
      "watched = Watched()");
  EXPECT_EQ(session_->complete("x = watc"), std::vector<std::string>{"watched"});
  EXPECT_EQ(session_->complete("sys.getrecursionl"), std::vector<std::string>{"getrecursionlimit"});
  EXPECT_EQ(session_->complete("impo"), std::vector<std::string>{"import"});
  EXPECT_EQ(session_->complete("watched.any.uppe"), std::vector<std::string>{"upper"});
  for (const char* none : {"watched.loop.a", "watched.net.a", "nosuch.a", "f().a", "'a'.up", "", "1."})
    EXPECT_TRUE(session_->complete(none).empty()) << none;
  EXPECT_EQ(exec("hasattr(sys, 'seen')").result, "False");
  EXPECT_TRUE(session_->files().empty());
}

TEST_F(Python, InputIsReadWhenTheProgramAsksInBlocksThatAreWhole) {
  const auto run = [&](size_t piece_bytes, const std::string& code) {
    const std::string text(200'000, 'x');
    size_t at = 0, reads = 0;
    RunOptions with = session_options();
    with.read_input = [&](std::chrono::milliseconds) {
      ++reads;
      InputPiece piece{.bytes = text.substr(at, piece_bytes)};
      at += piece.bytes.size();
      piece.is_end = at == text.size();
      return piece;
    };
    auto session = Session::create(template_, with);
    EXPECT_TRUE(session);
    const Report report = (*session)->exec({.code = code});
    return std::tuple(report.result, report.fuel_used, reads);
  };
  const std::string all = "import sys\nlen(sys.stdin.read())";
  const auto [result, fuel, reads] = run(1'000, all);
  EXPECT_EQ(result, "200000");
  EXPECT_EQ(std::get<1>(run(77'777, all)), fuel) << "the program saw how its input came";
  EXPECT_EQ(std::get<2>(run(1'000, "2 + 2")), 0u) << "it was read though nobody asked";
  EXPECT_EQ(std::get<0>(run(1'000, "len(open(0).read())")), "200000");
  EXPECT_EQ(std::get<2>(run(1'000, "import sys\nsys.stdin.buffer.raw.read(1)")), 66u)
      << "more than a block was read";
}

TEST_F(Python, SqliteWorksOnFilesInside) {
  EXPECT_EQ(exec("import sqlite3\nc = sqlite3.connect('/tmp/t.db')\nc.execute('create table t(a)')\n"
                 "c.execute('insert into t values (41)')\nc.commit()\n"
                 "sqlite3.connect('/tmp/t.db').execute('select a + 1 from t').fetchone()[0]")
                .result,
            "42");
}

}  // namespace
}  // namespace membrane::sandbox
