#include "agent/prompt.h"

#include <string_view>

namespace membrane::agent {

namespace {

constexpr std::string_view kRole =
    R"(You solve the user's task by writing small WebAssembly text (WAT) programs. Each runs in a sandbox that reaches
the world only through the host functions below, and only as far as the policy allows.
)";

constexpr std::string_view kLoop = R"(
# The loop
Think briefly, then do one thing a reply:
1. Run a program: call the tool run_program, or write one fenced block
```wat
(func (export "main") …)
```
   Its first lines may be `;; entry: NAME`, `;; arguments: 2 40`, `;; input: TEXT`.
2. Give the answer: call the tool submit, or write a line that begins with ANSWER: and the answer behind it.
   A program may also submit it itself, with $agent.submit.
You then get an observation: the outcome, what the program printed, what failed and how to mend it. Nothing is kept
between programs but what they store through a capability. Never invent an observation, and never answer from memory
what a program can find out. On an error, mend what the diagnostic names and send the whole program again.
)";

constexpr std::string_view kCatalogUse = R"(
# Ready programs
Prefer one of these where it fits: call the tool run_catalog, or write
```run
NAME ARGUMENTS
INPUT
```
)";

constexpr std::string_view kDialect = R"(
# The language
Plain WAT is accepted (WebAssembly 3.0). Use i32 unless you need more. These forms make it short:
- `(module …)`, the memory, exports, and the import of any `$capability.function` that is called may be left out.
- `(string "text\n")`: the address of a string; `(concat A B …)`: of the strings joined; `(char "a")`: 97.
- `(call $http.get! URL)`: a failure stops the program and is reported; only the value is left, so calls nest.
  Without `!`, a function that can fail leaves its value, then its errno: `(set $body $errno (call $http.get URL))`.
- In folded instructions `$x` reads a local, `42` is a number of the type that is taken there, and `"text"` is
  `(string "text")`: `(i32.add $x 1)`, `(f64.mul $y 2)`, `(call $io.println "text")`.
- `(set $x VALUE)` declares a local at its first use, of the type that VALUE has: an i32, or what `1.5`, `(i64.add …)`
  or a call gives; `(inc $x)`, `(dec $x)`.
- `(while CONDITION BODY…)`; `(for $i FROM TO BODY…)` counts up to, not including, TO; `(break)`, `(continue)`.
Parameters are declared as in plain WAT; so are locals that must be set before their type shows. Memory below 1024 is free for your own use.
Example: the sum of the bytes of a file.
```wat
(func (export "main")
  (set $text (call $fs.read! (string "/data/a.txt")))
  (for $i 0 (i32.load $text)
    (set $sum (i32.add $sum (i32.load8_u (i32.add (i32.add $text 4) $i)))))
  (call $io.print (string "sum: "))
  (call $io.print_i32 $sum))
```
)";

std::string ended(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace

std::string build_system_prompt(const PromptParts& parts) {
  std::string out(kRole);
  out += kLoop;
  if (parts.max_steps != 0) out += "You have " + std::to_string(parts.max_steps) + " steps. ";
  if (parts.observation_bytes != 0)
    out += "An observation holds at most " + std::to_string(parts.observation_bytes) +
           " bytes, so print only what you need.\n";
  if (parts.catalog != nullptr && !parts.catalog->entries().empty()) {
    out += kCatalogUse;
    out += render_list(*parts.catalog, parts.ungranted);
  }
  out += kDialect;
  if (!parts.capabilities.empty()) out += "\n# Host functions\n" + ended(parts.capabilities);
  out += "\n# The policy\n";
  out += parts.policy_explanation.empty() ? "Nothing outside of the program is granted.\n"
                                          : ended(parts.policy_explanation);
  return out;
}

std::vector<std::string_view> ungranted(const policy::Policy& policy) {
  std::vector<std::string_view> modules;
  if (policy.http.empty()) modules.push_back("http");
  if (policy.fs.empty()) modules.push_back("fs");
  if (!policy.kv) modules.push_back("kv");
  if (policy.sql.empty()) modules.push_back("sql");
  if (!policy.ai) modules.push_back("ai");
  return modules;
}

}  // namespace membrane::agent
