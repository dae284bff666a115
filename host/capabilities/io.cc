// io: a program's input, output and result.
#include "base/utf8.h"
#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/numbers.h"

namespace membrane::host {
namespace {

// Whatever bytes a program prints, the report is text.
HostResult<Value> print_to(Call& call, Stream stream, std::string_view text) {
  const bool fits =
      is_utf8(text) ? call.guest.print(stream, text) : call.guest.print(stream, utf8_repair(text));
  if (!fits) call.end = CallEnd::kOutOfOutput;
  return Value();
}

HostResult<Value> print(Call& call) { return print_to(call, Stream::kStdout, call.text(0)); }
HostResult<Value> println(Call& call) {
  return print_to(call, Stream::kStdout, std::string(call.text(0)) + '\n');
}
HostResult<Value> newline(Call& call) { return print_to(call, Stream::kStdout, "\n"); }
HostResult<Value> print_i32(Call& call) {
  return print_to(call, Stream::kStdout, std::to_string(call.i32(0)));
}
HostResult<Value> print_i64(Call& call) {
  return print_to(call, Stream::kStdout, std::to_string(call.i64(0)));
}
HostResult<Value> print_f64(Call& call) { return print_to(call, Stream::kStdout, decimal_of(call.f64(0))); }
HostResult<Value> eprint(Call& call) { return print_to(call, Stream::kStderr, call.text(0)); }

HostResult<Value> input(Call& call) { return std::string(call.guest.input()); }

HostResult<Value> argument_count(Call& call) { return static_cast<int32_t>(call.guest.arguments().size()); }

HostResult<Value> argument(Call& call) {
  const auto arguments = call.guest.arguments();
  const int32_t index = call.i32(0);
  if (index < 0 || static_cast<size_t>(index) >= arguments.size())
    return refuse(Errno::kNotFound, "there is no argument " + std::to_string(index) + "; there are " +
                                        std::to_string(arguments.size()));
  return arguments[static_cast<size_t>(index)];
}

HostResult<Value> result(Call& call) {
  const std::string_view text = call.text(0);
  const bool fits = is_utf8(text) ? call.guest.set_result(text) : call.guest.set_result(utf8_repair(text));
  if (!fits) call.end = CallEnd::kOutOfOutput;
  return Value();
}

constexpr Param kText{"text", Type::kBytes};

constexpr FunctionSpec kFunctions[] = {
    {.module = "io",
     .name = "print",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Prints the text, without a line break.",
     .details = "Bytes that are not UTF-8 are printed as U+FFFD. When the run's output limit is reached the "
                "run ends "
                "with the outcome out_of_output; what fits has been printed.",
     .example = R"((call $io.print (string "hello")))",
     .prints = "hello",
     .handler = print},
    {.module = "io",
     .name = "println",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Prints the text and a line break.",
     .details = "As `io.print`.",
     .example = R"((call $io.println (string "hello")))",
     .prints = "hello\n",
     .handler = println},
    {.module = "io",
     .name = "newline",
     .effect = Effect::kOutput,
     .summary = "Prints a line break.",
     .example = "(call $io.print_i32 (i32.const 7)) (call $io.newline)",
     .prints = "7\n",
     .handler = newline,
     .is_rare = true},
    {.module = "io",
     .name = "print_i32",
     .params = {{"value", Type::kI32}},
     .effect = Effect::kOutput,
     .summary = "Prints a signed number in decimal, without a line break.",
     .example = "(call $io.print_i32 (i32.const -42))",
     .prints = "-42",
     .handler = print_i32},
    {.module = "io",
     .name = "print_i64",
     .params = {{"value", Type::kI64}},
     .effect = Effect::kOutput,
     .summary = "Prints a signed number in decimal, without a line break.",
     .example = "(call $io.print_i64 (i64.const 9007199254740993))",
     .prints = "9007199254740993",
     .handler = print_i64},
    {.module = "io",
     .name = "print_f64",
     .params = {{"value", Type::kF64}},
     .effect = Effect::kOutput,
     .summary = "Prints a number as the shortest decimal that reads back the same (0.1, 3, 1e+30, inf, nan), "
                "without a line break.",
     .example = "(call $io.print_f64 (f64.const 0.1))",
     .prints = "0.1",
     .handler = print_f64},
    {.module = "io",
     .name = "eprint",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Prints the text to stderr, without a line break.",
     .details = "Counts against the same output limit as stdout.",
     .example = R"((call $io.eprint (string "look here")))",
     .handler = eprint},
    {.module = "io",
     .name = "input",
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The input of the run, whole, each time; empty when there is none.",
     .example = "(call $io.print (call $io.input))",
     .handler = input},
    {.module = "io",
     .name = "argument_count",
     .result = Type::kI32,
     .result_name = "count",
     .summary = "How many arguments the run was given.",
     .example = "(call $io.print_i32 (call $io.argument_count))",
     .prints = "0",
     .handler = argument_count,
     .is_rare = true},
    {.module = "io",
     .name = "argument",
     .params = {{"index", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .summary = "The argument with this index, counted from 0; ENOENT when there is none.",
     .failures = {{Errno::kNotFound, "the index is negative or not less than `io.argument_count`"}},
     .example = R"((local $errno i32)
(call $io.argument (i32.const 0))
(local.set $errno)
(call $io.print)
(call $io.print_i32 (local.get $errno)))",
     .prints = "2",
     .handler = argument},
    {.module = "io",
     .name = "result",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Sets the result of the run, apart from what is printed; the last call counts.",
     .details = "The report carries it as `result`. Each call counts against the output limit.",
     .example = R"((call $io.result (string "{\"papers\":3}")))",
     .handler = result},
};

}  // namespace

std::span<const FunctionSpec> io_functions() { return kFunctions; }

}  // namespace membrane::host
