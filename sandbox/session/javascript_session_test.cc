// Sessions in JavaScript: what only that language has.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "sandbox/session/session_testing.h"

namespace membrane::sandbox {
namespace {

class JavaScript : public OneLanguage {
 protected:
  JavaScript() : OneLanguage("js") {}
  Report script(const std::string& name, const std::string& code) {
    return session_->exec({.code = code, .name = name, .is_script = true});
  }
  void put(const std::string& path, const std::string& text) { ASSERT_TRUE(session_->put_file(path, text)); }
};

TEST_F(JavaScript, WhatTheTrifectaRuleHoldsBackIsDenied) {
  begin(held_back(session_options()));
  EXPECT_EQ(session_->exec({.code = "1", .input = "given"}).outcome, Outcome::kOk);
  const Report report = exec("await fetch('https://example.org/')");
  EXPECT_EQ(report.outcome, Outcome::kDenied) << render_text(report, false);
}

TEST_F(JavaScript, WhatFillsTheMemoryWithObjectsIsOutOfMemory) {
  RunOptions small = session_options();
  small.policy.limits.memory_bytes = 16u << 20;
  begin(small);
  const Report report = exec("const rows = []; for (;;) rows.push({ a: 1, b: [1, 2] })");
  EXPECT_EQ(report.outcome, Outcome::kOutOfMemory) << render_text(report, false);
}

TEST_F(JavaScript, TextsAndBytesBecomeOneAnotherWithoutAFurtherCopy) {
  RunOptions small = session_options();
  small.policy.limits.memory_bytes = 64u << 20;
  begin(small);
  EXPECT_EQ(exec("new TextDecoder().decode(new Uint8Array(24 << 20).fill(97)).length").result, "25165824");
  EXPECT_EQ(exec("new TextEncoder().encode('x'.repeat(24 << 20)).length").result, "25165824");
  EXPECT_EQ(exec("new TextDecoder().decode(new Uint8Array([226, 130, 172, 226]).subarray(0, 3))").result,
            "'€'");
}

TEST_F(JavaScript, FunctionsCallThemselvesAsDeepAsProgramsDo) {
  begin(session_options());
  EXPECT_EQ(exec("const depth = (n) => n === 0 ? 0 : 1 + depth(n - 1); depth(10000)").result, "10000");
  EXPECT_NE(render_text(exec("depth(1e9)"), false).find("RangeError"), std::string::npos);
  EXPECT_EQ(
      exec("const nested = (n) => n === 0 ? 0 : 1 + [n].map((n) => nested(n - 1))[0]; nested(1500)").result,
      "1500");
  EXPECT_EQ(exec("try { nested(1e9) } catch (error) { error.name }").result, "'RangeError'");
  EXPECT_EQ(exec("depth(10000)").result, "10000");
}

// QuickJS calls its iterators without a check of its stack.
TEST_F(JavaScript, WhatOverflowsTheEnginesStackIsUndone) {
  begin(session_options());
  EXPECT_EQ(exec("const kept = 5; Math.log(8)").result, "2.0794415416798357");
  for (const char* levels : {"88500", "100000", "200000"}) {
    const Report report = exec("let it = [1, 2].values(); for (let i = 0; i < " + std::string(levels) +
                               "; ++i) it = it.take(1e9); try { it.next() } catch {} 1");
    EXPECT_NE(report.outcome, Outcome::kOk) << levels;
    EXPECT_EQ(exec("[kept, Math.log(8), Math.pow(1.5, 2.5), 'é'.normalize('NFD').length]").result,
              "[ 5, 2.0794415416798357, 2.7556759606310752, 2 ]")
        << levels;
  }
}

TEST_F(JavaScript, AScriptThatImportsIsAModuleAndFilesAreFoundBesideIt) {
  put("/app/lib/math.js",
      "import { base } from '../base.js';\nexport let count = 0;\nexport const add = (a, b) => (++count, a + "
      "b + base);");
  put("/app/base.js", "export const base = 100;");
  put("/app/lib/data.json", "{\"n\": 7}");
  put("/app/lib/later.js",
      "import { count } from './math.js';\nexport default await Promise.resolve(count);");
  const Report report = script("/app/main.js",
                               "import { add, count } from './lib/math.js';\nimport { kv } from 'membrane';\n"
                               "import data from './lib/data.json' with { type: 'json' };\n"
                               "console.log(this, add(1, 2), count, data.n, typeof kv.get);\n"
                               "console.log((await import('./lib/later.js')).default);");
  EXPECT_EQ(report.stdout_text, "undefined 103 1 7 function\n1\n") << render_text(report, false);
  EXPECT_EQ(script("/app/plain.js", "console.log(this === undefined)").stdout_text, "false\n");
}

TEST_F(JavaScript, CellsImportFilesAndAGrantIsAskedFor) {
  const std::string directory = ::testing::TempDir() + "membrane-modules-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/x.js") << "export const x = 20; export default 22;\n";
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  EXPECT_EQ(exec("import y, { x } from './data/x.js'\nx + y").result, "42");
  EXPECT_EQ(exec("const { x: z } = await import('/data/x.js'); z").result, "20");
  const Report denied = exec("import '/elsewhere/x.js'");
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  ASSERT_FALSE(denied.errors.empty());
  EXPECT_NE(denied.errors[0].hint.find("--allow fs:read:HOST_DIRECTORY:/elsewhere"), std::string::npos)
      << denied.errors[0].hint;
  EXPECT_NE(exec("import './data/none.js'").errors.at(0).message.find("there is no /data/none.js"),
            std::string::npos);
  const Report missing = exec("import 'lodash'");
  EXPECT_NE(missing.errors.at(0).message.find("--with lodash"), std::string::npos);
  EXPECT_NE(missing.errors.at(0).message.find("--allow fs:read:./node_modules:/node_modules"),
            std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST_F(JavaScript, AModulesErrorHasItsPlaceAndItsLine) {
  put("/boom.js", "export function boom() {\n  throw new RangeError('here');\n}\n");
  put("/wrong.js", "let x = ;");
  const Report thrown = script("main.js", "import { boom } from './boom.js';\nboom();");
  ASSERT_EQ(thrown.errors.size(), 1u);
  EXPECT_NE(thrown.errors[0].traceback.find("/boom.js:2\n  throw new RangeError"), std::string::npos)
      << thrown.errors[0].traceback;
  EXPECT_NE(thrown.errors[0].traceback.find("main.js:2"), std::string::npos);
  EXPECT_EQ(script("main.js", "import './wrong.js'").errors.at(0).code, "SyntaxError");
  EXPECT_EQ(script("main.js", "import { nothing } from './boom.js'").errors.at(0).code, "SyntaxError");
}

TEST_F(JavaScript, TypesAreTakenAwayFromModules) {
  put("/typed.ts", "export function square(x: number): number { return x * x }");
  const Report report = script(
      "main.ts", "import { square } from './typed.ts';\nconst n: number = square(4);\nconsole.log(n);");
  if (!report.errors.empty() &&
      report.errors[0].message.find("TypeScript is not available") != std::string::npos)
    GTEST_SKIP() << report.errors[0].message;
  EXPECT_EQ(report.stdout_text, "16\n") << render_text(report, false);
}

TEST_F(JavaScript, AScriptInThisContextIsGlobalAndItsLimitsHold) {
  exec("import { runInThisContext } from 'node:vm'");
  EXPECT_EQ(exec("runInThisContext('const fixed = 5; this === globalThis')").result, "true");
  EXPECT_EQ(exec("fixed").result, "5");
  EXPECT_EQ(exec("runInThisContext('fixed = 6')").errors.at(0).code, "TypeError");
  EXPECT_EQ(exec("var again = () => runInThisContext('again()'); again()").errors.at(0).code, "RangeError");
  EXPECT_EQ(exec("runInThisContext('for (;;);')").outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(exec("runInThisContext('process.exit(3)')").exit_code, 3);
  EXPECT_EQ(exec("fixed").result, "5");
}

// A package with every feature that resolution considers.
void put_package(const std::function<void(const std::string&, const std::string&)>& put) {
  put("/node_modules/pkg/package.json",
      R"({"name":"pkg","exports":{".":{"import":"./esm.mjs","require":"./cjs.js"},"./deep/*":"./lib/*.js","./no":null},)"
      R"("imports":{"#own":"./lib/own.js"}})");
  put("/node_modules/pkg/esm.mjs", "export const kind = 'import'; export default 1;");
  put("/node_modules/pkg/cjs.js", "exports.kind = 'require'; exports.own = require('#own');");
  put("/node_modules/pkg/lib/own.js", "module.exports = 'own';");
  put("/node_modules/old/package.json", R"({"main":"lib"})");
  put("/node_modules/old/lib/index.js",
      "module.exports = function old() { return __dirname + ' ' + __filename; };");
  put("/node_modules/@scope/esm/package.json", R"({"type":"module","main":"./index.js"})");
  put("/node_modules/@scope/esm/index.js", "export const word = 'esm'; export default 2;");
}

TEST_F(JavaScript, PackagesAreFoundAsNodeFindsThem) {
  put_package([this](const std::string& path, const std::string& text) { put(path, text); });
  put("/app/data.json", R"({"n": 7})");
  put("/app/a.js", "exports.early = 1; const b = require('./b'); exports.late = b.seen;");
  put("/app/b.js", "exports.seen = require('./a').early;");
  const Report report =
      script("/app/main.js",
             "const { kind, own } = require('pkg'), old = require('old');\n"
             "console.log(kind, own, old(), require('pkg/deep/own'), require('@scope/esm').word);\n"
             "console.log(require('./data').n, require('./a').late, require.main === module, __filename,\n"
             "            require.resolve('old'), Object.keys(require.cache).length);\n"
             "for (const name of ['pkg/no', 'pkg/x', './none', 'absent/y'])\n"
             "  try { require(name) } catch (e) { console.log(e.code) }\n"
             "import('pkg').then((m) => console.log(m.kind, m.default));");
  EXPECT_EQ(
      report.stdout_text,
      "require own /node_modules/old/lib /node_modules/old/lib/index.js own esm\n"
      "7 1 true /app/main.js /node_modules/old/lib/index.js 8\n"
      "ERR_PACKAGE_PATH_NOT_EXPORTED\nERR_PACKAGE_PATH_NOT_EXPORTED\nMODULE_NOT_FOUND\nMODULE_NOT_FOUND\n"
      "import 1\n")
      << render_text(report, false);
  const Report module = script(
      "/app/main.mjs",
      "import old from 'old'; import { kind } from 'pkg'; import { own } from '../node_modules/pkg/cjs.js';\n"
      "console.log(old.name, kind, own, import.meta.url, import.meta.dirname);");
  EXPECT_EQ(module.stdout_text, "old import own file:///app/main.mjs /app\n") << render_text(module, false);
}

TEST_F(JavaScript, FilesAreReadAndWrittenByGrants) {
  const std::string directory = ::testing::TempDir() + "membrane-js-files-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/in.txt") << "given";
  RunOptions run_options = session_options();
  run_options.policy.fs.push_back({.guest = "/in", .host = directory});
  run_options.policy.fs.push_back({.guest = "/out", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  const Report made = exec(
      "const fs = require('fs');\n"
      "fs.writeFileSync('/out/made.txt', fs.readFileSync('/in/in.txt', 'utf8').toUpperCase());\n"
      "fs.writeFileSync('/own/x', 'y')");
  EXPECT_EQ(made.outcome, Outcome::kRaised) << "no directory /own, and no grant of one";
  EXPECT_NE(made.errors.at(0).message.find("ENOENT: no such file or directory, open '/own/x'"),
            std::string::npos);
  std::ostringstream written;
  written << std::ifstream(directory + "/made.txt").rdbuf();
  EXPECT_EQ(written.str(), "GIVEN");
  EXPECT_FALSE(made.host_calls.empty());
  const Report refused = exec("fs.writeFileSync('/in/in.txt', 'x')");
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_NE(refused.errors.at(0).message.find("EROFS: read-only file system"), std::string::npos)
      << refused.errors.at(0).message;
  std::filesystem::remove_all(directory);
}

TEST_F(JavaScript, FilesOfATurnThatWasUndoneAreGone) {
  exec("const fs = require('fs'); fs.writeFileSync('/kept', '1'); const fd = fs.openSync('/kept', 'a')");
  EXPECT_EQ(exec("fs.writeFileSync('/lost', '1'); fs.writeSync(fd, 'lost'); for (;;);").outcome,
            Outcome::kOutOfFuel);
  EXPECT_EQ(exec("fs.writeSync(fd, '2'); [fs.existsSync('/lost'), fs.readFileSync('/kept', 'utf8')]").result,
            "[ false, '12' ]");
}

TEST_F(JavaScript, TheDeviceOfTheDoorCannotBeOpenedThroughTheDoor) {
  const Report report = exec(
      "const fs = require('fs');\n"
      "fs.symlinkSync('/dev/membrane', '/door');\n"
      "['/dev/membrane', '/door', '/dev/../dev/membrane'].map((path) => {\n"
      "  try { return fs.writeFileSync(path, '{}') } catch (e) { return e.code } })");
  EXPECT_EQ(report.result, "[ 'ENXIO', 'ENXIO', 'ENXIO' ]") << render_text(report, false);
}

TEST_F(JavaScript, AFileThatTheMemoryCannotHoldIsRefused) {
  const Report report = exec(
      "const fs = require('fs'); const fd = fs.openSync('/big', 'w+');\n"
      "try { fs.ftruncateSync(fd, 2 ** 40) } catch (e) { console.log(e.code) }\n"
      "fs.ftruncateSync(fd, 1 << 22); fs.readFileSync('/big').length");
  EXPECT_EQ(report.result, "4194304") << render_text(report, false);
  EXPECT_NE(report.stdout_text, "");
}

TEST_F(JavaScript, FilesThatTakeAllTheRoomLeaveSomeForTheResult) {
  const Report report = exec(
      "const fs = require('fs'); let code, size = 0; fs.writeFileSync('/full', '');\n"
      "for (const step of [1 << 20, 1 << 15, 1 << 10, 1 << 5])\n"
      "  try { for (;; size += step) fs.truncateSync('/full', size + step) } catch (e) { code = e.code }\n"
      "code");
  EXPECT_EQ(report.outcome, Outcome::kOk) << render_text(report, false);
  EXPECT_EQ(report.result, "'ENOSPC'");
}

TEST_F(JavaScript, AnErrorHasItsLineAndColumnWhateverIsAroundTheProgram) {
  const Report first = script("a.js", "null.x");
  EXPECT_NE(first.errors.at(0).traceback.find("(a.js:1:1)"), std::string::npos)
      << first.errors.at(0).traceback;
  put("/lib.js", "module.exports = () => { throw new Error('here') };");
  const Report deep = script("a.js", "\n\nrequire('./lib')();");
  EXPECT_NE(deep.errors.at(0).traceback.find("/lib.js:1:36"), std::string::npos)
      << deep.errors.at(0).traceback;
  EXPECT_NE(deep.errors[0].traceback.find("a.js:3"), std::string::npos);
}

TEST_F(JavaScript, ATextIsCheckedWithoutBeingRun) {
  const auto check = [&](const std::string& name, const std::string& code) {
    return session_->exec({.code = code, .name = name, .only_checks = true});
  };
  EXPECT_EQ(check("a.js", "console.log('ran'); const x = await 5; return x").stdout_text, "");
  EXPECT_EQ(check("a.mjs", "import x from './none.js'; console.log(x)").outcome, Outcome::kOk);
  const Report wrong = check("a.js", "let a = 1;\nlet b = ;");
  EXPECT_EQ(wrong.outcome, Outcome::kRaised);
  EXPECT_EQ(wrong.errors.at(0).code, "SyntaxError");
  EXPECT_EQ(wrong.errors[0].place.line, 2u);
  EXPECT_GT(wrong.errors[0].place.column, 0u);
  EXPECT_EQ(check("a.mjs", "import x from\n5").errors.at(0).place.line, 2u);
  EXPECT_EQ(exec("1 + 1").result, "2");
}

TEST_F(JavaScript, NamesAreCompletedAndNothingStays) {
  exec(
      "const data = { alpha: 1, get beta() { console.log('asked'); globalThis.seen = true; return { gamma: 2 "
      "}; } }");
  EXPECT_EQ(session_->complete("1 + dat"), std::vector<std::string>{"data"});
  EXPECT_EQ(session_->complete("data.al"), std::vector<std::string>{"alpha"});
  EXPECT_EQ(session_->complete("data.beta.g"), std::vector<std::string>{"gamma"});
  EXPECT_EQ(session_->complete("[].fin"), std::vector<std::string>{}) << "what is no name is not evaluated";
  EXPECT_TRUE(session_->complete("nosuch.a").empty());
  EXPECT_EQ(exec("typeof seen").result, "'undefined'");
}

// The program can change the code that answers; a terminal shows the result.
TEST_F(JavaScript, CompletionsAreNamesThatBeginAsTheCodeDoes) {
  exec("Array.prototype.sort = () => ['z\\x1b[2J', 'other', 'z1\\nz2', 'z(1)', 'zeta']");
  for (const std::string& name : session_->complete("z"))
    EXPECT_TRUE(name == "zeta" || name == "z1" || name == "z2") << name;
}

// QuickJS asks after jumps and calls, and its own place is then the one before a loop as often as one inside.
TEST_F(JavaScript, ALoopIsStoppedAtItsCallsWhateverCameBefore) {
  for (const std::string before : {"", "f();", "f(); f();", "f(); f(); f();"})
    for (const std::string inside : {"i += Math.sqrt(i)", "if (f()) break", "a.length = 0; a.push(i)"}) {
      begin(session_options());
      const Report report = script("/loop.js", "function f() {}\nlet a = [], i = 1;\n" + before +
                                                   "\nfor (;;) {\n  " + inside + ";\n}\n");
      ASSERT_EQ(report.outcome, Outcome::kOutOfFuel);
      EXPECT_EQ(report.errors.at(0).place.line, 5u) << before << inside;
    }
}

// The search for the place takes at most half a second, however much fuel is left.
TEST_F(JavaScript, WhatIsOutOfTimeEnds) {
  RunOptions hurried = session_options();
  hurried.policy.limits.memory_bytes = 512u << 20;
  hurried.policy.limits.fuel = 1'000'000'000'000'000;
  hurried.policy.limits.wall_ms = 200;
  begin(hurried);
  const Report report = exec("const a = new Uint8Array(1 << 27); for (;;) { a.fill(1) }");
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
  EXPECT_LT(report.fuel_used, 100'000'000'000u);
}

TEST_F(JavaScript, BreakingTheAnswersEndsOnlyTheTurn) {
  exec("var x = 20");
  const Report broken =
      exec("Object.defineProperty(Array.prototype, '0', { value: 100, writable: false }); 5");
  EXPECT_EQ(broken.outcome, Outcome::kRaised);
  EXPECT_LT(broken.fuel_used, 100'000'000u);
  EXPECT_EQ(exec("x").result, "20");
}

}  // namespace
}  // namespace membrane::sandbox
