/* Membrane in a C program: runs the programs that a language model writes, inside a wall.
 *
 *   membrane_policy *policy = membrane_policy_new();               // grants nothing
 *   membrane_policy_limit(policy, "fuel", "1000000", NULL);
 *   membrane_sandbox *sandbox = membrane_sandbox_new(policy);
 *   membrane_report *report = membrane_sandbox_run(sandbox, &(membrane_program){.source = text});
 *   puts(membrane_report_json(report));
 *
 * Ownership: objects returned by functions named _new, _parse, _load, _compile, _run or _call are freed by
 * the _free of their kind, which accepts NULL. Other pointers are borrowed, and are valid as long as the object
 * that they came from. Arguments are copied, unless a line says that they are borrowed.
 *
 * Errors: functions that can fail return NULL or false and, if `error` is not NULL, set *error to an error that
 * the caller frees. No exception and no signal crosses this interface. Running out of the system's memory is
 * an error, too ("exhausted").
 *
 * Strings are UTF-8 and NUL-terminated; those that may contain a NUL come with a size. Sizes are in bytes,
 * fuel in units of docs/fuel.md. The C++ interface, membrane.hpp, is the same with types.
 */
#ifndef MEMBRANE_MEMBRANE_H
#define MEMBRANE_MEMBRANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

const char* membrane_version(void); /* "0.1.0" */

/* Limits all linear memories of the process together; a program that would exceed the limit meets its memory limit.
 * UINT64_MAX, the default: no ceiling. Any thread, at any time. */
void membrane_set_memory_ceiling(uint64_t bytes);
uint64_t membrane_memory_in_use_bytes(void);

void membrane_bytes_free(uint8_t* bytes); /* of a _dump or a _read_file; accepts NULL */

/* -- errors ----------------------------------------------------------------------------------- */

typedef struct membrane_error membrane_error;

const char* membrane_error_code(const membrane_error* error); /* stable: "unknown-function" */
const char* membrane_error_message(const membrane_error* error);
const char* membrane_error_hint(const membrane_error* error);     /* may be "" */
uint32_t membrane_error_line(const membrane_error* error);        /* from 1; 0: unknown */
uint32_t membrane_error_column(const membrane_error* error);      /* in bytes, from 1; 0: unknown */
uint32_t membrane_error_offset(const membrane_error* error);      /* into the text or binary; 0: unknown */
const char* membrane_error_function(const membrane_error* error); /* "$name" or "#index"; may be "" */
void membrane_error_free(membrane_error* error);

/* -- values and host functions ---------------------------------------------------------------- */

typedef enum membrane_type { MEMBRANE_I32, MEMBRANE_I64, MEMBRANE_F32, MEMBRANE_F64 } membrane_type;

typedef struct membrane_value {
  membrane_type type;
  union {
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
  } of;
} membrane_value;

/* A call of a host function in progress. */
typedef struct membrane_host_call membrane_host_call;

/* A function that you provide to programs. `results` already have their types, and are 0. Returning false traps the
 * program. It runs on the thread of the run, and concurrently if several runs are active. */
typedef bool (*membrane_callback)(void* user_data, membrane_host_call* call, const membrane_value* arguments,
                                  membrane_value* results);

typedef struct membrane_host_function {
  const char* module; /* (import "module" "name" (func …)) */
  const char* name;
  const membrane_type* parameters;
  size_t parameter_count;
  const membrane_type* results;
  size_t result_count;
  membrane_callback call;
  void* user_data; /* borrowed as long as programs may call it */
} membrane_host_function;

/* The caller's linear memory. Valid until membrane_host_call_write_string, or until the callback returns. */
uint8_t* membrane_host_call_memory(membrane_host_call* call, size_t* size);
/* The string at `address` (4 bytes of length, little endian, then the bytes), checked against the memory: NULL if it is
 * not inside. Not NUL-terminated. Borrowed from the memory. */
const char* membrane_host_call_read_string(membrane_host_call* call, int32_t address, size_t* size);
/* Allocates a string in the caller's memory; false when there is no room. */
bool membrane_host_call_write_string(membrane_host_call* call, const char* bytes, size_t size,
                                     int32_t* address);
/* Takes fuel for work on the caller's behalf; call it before the work. False: there is not enough. Then return at once:
 * the guest pauses before the call, which is repeated once fuel has been added. */
bool membrane_host_call_charge(membrane_host_call* call, uint64_t fuel);
/* Announces that the answer comes later; then return at once, and the return value is ignored. The program stops in the
 * call ("waiting"), and is resumed with the answer. Charged fuel stays charged. `note`, which may be NULL, is stored
 * with the call in the report and in the bytes: what the arguments refer to, the number of a job. A size of 0: `note`
 * is NUL-terminated. */
void membrane_host_call_answer_later(membrane_host_call* call, const char* note, size_t size);
/* The reason, before the callback returns false. */
void membrane_host_call_trap(membrane_host_call* call, const char* message);

/* -- policy ------------------------------------------------------------------------------------- */

/* What a program may do, and its limits: see docs/policy.md. Threads: one at a time. */
typedef struct membrane_policy membrane_policy;

membrane_policy* membrane_policy_new(void); /* grants nothing; NULL without memory */
/* Parses a file's text: TOML, or JSON when `name` ends in ".json". */
membrane_policy* membrane_policy_parse(const char* text, size_t size, const char* name,
                                       membrane_error** error);
membrane_policy* membrane_policy_load(const char* path, membrane_error** error);
/* As the flags of `membrane run`: "fs:read:./data"; "memory", "16 MiB". On failure the policy is unchanged. */
bool membrane_policy_allow(membrane_policy* policy, const char* grant, membrane_error** error);
bool membrane_policy_limit(membrane_policy* policy, const char* name, const char* value,
                           membrane_error** error);
/* In sentences, one per line. Valid until the next call with this policy. */
const char* membrane_policy_explain(membrane_policy* policy);
void membrane_policy_free(membrane_policy* policy);

/* Fuel, host calls, bytes, tokens and time, prepaid and shared by many runs. Threads: any. */
typedef struct membrane_budget membrane_budget;

membrane_budget* membrane_budget_new(const membrane_policy* policy); /* its time begins now */
uint64_t membrane_budget_fuel_left(const membrane_budget* budget);
void membrane_budget_free(membrane_budget* budget); /* sandboxes that share it keep it */

/* -- one program, one report ---------------------------------------------------------------------- */

typedef struct membrane_program {
  const char* source;           /* WAT, with the preprocessor's forms, or the bytes of a binary */
  size_t source_size;           /* 0: to the 0 at its end */
  const char* name;             /* for messages; NULL: "program.wat" */
  const char* entry;            /* an export; NULL: _start, else run, else main */
  const char* const* arguments; /* as text, typed by the entry; without parameters, for io.argument */
  size_t argument_count;
  const char* input; /* what io.input gives; may be NULL */
  size_t input_size; /* 0: to the 0 at its end */
} membrane_program;

/* Runs programs under one policy. Threads: _run and _cancel from any thread, the rest before the first run. */
typedef struct membrane_sandbox membrane_sandbox;
typedef struct membrane_report membrane_report;

membrane_sandbox* membrane_sandbox_new(const membrane_policy* policy); /* copies it; NULL without memory */
bool membrane_sandbox_define(membrane_sandbox* sandbox, const membrane_host_function* function,
                             membrane_error** error);
void membrane_sandbox_share(membrane_sandbox* sandbox, const membrane_budget* budget);
/* The environment, "NAME=VALUE" each, for WASI programs that it runs from now on; empty by default. */
bool membrane_sandbox_set_environment(membrane_sandbox* sandbox, const char* const* variables, size_t count,
                                      membrane_error** error);
/* Any failure is in the report; NULL if out of memory. */
membrane_report* membrane_sandbox_run(const membrane_sandbox* sandbox, const membrane_program* program);
/* The same, but the program pauses and is frozen ("frozen") after using this much fuel, unless it ends before. */
membrane_report* membrane_sandbox_run_until(const membrane_sandbox* sandbox, const membrane_program* program,
                                            uint64_t freeze_after_fuel);
/* Resumes a frozen program under this sandbox's policy; the report and the limits cover the whole run. The same bytes
 * may be thawed repeatedly. UINT64_MAX: until it ends. */
membrane_report* membrane_sandbox_thaw(const membrane_sandbox* sandbox, const uint8_t* snapshot, size_t size,
                                       uint64_t freeze_after_fuel);
/* Answers the call in which a program waits, and resumes it as membrane_sandbox_thaw does: with `result_count` values,
 * or with an error, which traps, when `error_message` is not NULL. Values whose types are not those of the function's
 * results are refused ("invalid"), and the bytes remain usable. Thawing without an answer runs nothing, and reports
 * what the program waits for. */
membrane_report* membrane_sandbox_resume(const membrane_sandbox* sandbox, const uint8_t* snapshot,
                                         size_t size, const membrane_value* results, size_t result_count,
                                         const char* error_message, uint64_t freeze_after_fuel);
/* The same, but calls a function to get the answer. The function can use the caller's memory, and may defer the answer
 * again. */
membrane_report* membrane_sandbox_resume_with(const membrane_sandbox* sandbox, const uint8_t* snapshot,
                                              size_t size, membrane_callback answer, void* user_data,
                                              uint64_t freeze_after_fuel);
/* Stops running programs, and any that would run later. */
void membrane_sandbox_cancel(membrane_sandbox* sandbox);
void membrane_sandbox_free(membrane_sandbox* sandbox);

/* What a run did, exactly. */
const char* membrane_report_outcome(
    const membrane_report* report); /* "ok", "out_of_fuel", …: the schema lists them */
const membrane_error* membrane_report_error(const membrane_report* report); /* NULL when it is "ok" */
const char* membrane_report_stdout(const membrane_report* report,
                                   size_t* size); /* size may be NULL, here and below */
const char* membrane_report_stderr(const membrane_report* report, size_t* size);
const char* membrane_report_result(const membrane_report* report,
                                   size_t* size); /* what it gave to io.result */
const char* membrane_report_answer(const membrane_report* report,
                                   size_t* size); /* to agent.submit; NULL: nothing */
/* For a program that exited by itself, as with WASI's proc_exit; false when it did not. */
bool membrane_report_exit_code(const membrane_report* report, int32_t* code);
size_t membrane_report_value_count(const membrane_report* report); /* the entry's values */
/* False for references, vectors, and an index that is too large. */
bool membrane_report_value(const membrane_report* report, size_t index, membrane_value* value);
uint64_t membrane_report_fuel_used(const membrane_report* report);
uint64_t membrane_report_memory_peak_bytes(const membrane_report* report);
size_t membrane_report_host_call_count(const membrane_report* report);
/* A call of one of your functions that has no answer yet. */
typedef struct membrane_waiting_call {
  const char* name; /* "shop.price" */
  const membrane_value* arguments;
  size_t argument_count;
  const char* note; /* what membrane_host_call_answer_later was given; "" for nothing */
  size_t note_size;
} membrane_waiting_call;

/* The call that a WebAssembly program waits for; NULL when there is none. Valid as long as the report. */
const membrane_waiting_call* membrane_report_waiting_call(membrane_report* report);
/* The snapshot of a frozen or waiting program; NULL when it is neither. Valid as long as the report. */
const uint8_t* membrane_report_snapshot(const membrane_report* report, size_t* size);
const char* membrane_report_json(membrane_report* report); /* all of it: docs/report.schema.json */
const char* membrane_report_text(membrane_report* report); /* for a terminal */
void membrane_report_free(membrane_report* report);

/* -- the engine ----------------------------------------------------------------------------------- */

/* A validated module. Threads: any; an instance keeps it alive. */
typedef struct membrane_module membrane_module;

/* WAT or a binary. *error is the first of its mistakes. */
membrane_module* membrane_module_compile(const char* source, size_t size, membrane_error** error);
void membrane_module_free(membrane_module* module);

typedef struct membrane_instance_options {
  const membrane_host_function* functions; /* all that the module can import */
  size_t function_count;
  uint64_t memory_bytes; /* its memory grows no further; 0: 64 MiB */
  uint64_t start_fuel;   /* for its start function; 0: 1,000,000 */
} membrane_instance_options;

/* Memory, tables and globals of a module. Threads: one at a time, its calls included. */
typedef struct membrane_instance membrane_instance;

/* `options` may be NULL. */
membrane_instance* membrane_instance_new(const membrane_module* module,
                                         const membrane_instance_options* options, membrane_error** error);
/* Valid until a call is made or resumed. NULL when it has none. */
uint8_t* membrane_instance_memory(membrane_instance* instance, size_t* size);
void membrane_instance_free(membrane_instance* instance); /* its calls keep it alive */

typedef enum membrane_call_status {
  MEMBRANE_RETURNED,
  MEMBRANE_TRAPPED,
  MEMBRANE_OUT_OF_FUEL, /* a pause: membrane_call_add_fuel and membrane_call_resume */
  MEMBRANE_INTERRUPTED, /* a pause: membrane_call_resume */
  MEMBRANE_WAITING      /* a function of yours answers later: membrane_call_answer */
} membrane_call_status;

typedef struct membrane_call membrane_call;

/* Starts a call of an export, and runs it until it ends or the fuel is used up. */
membrane_call* membrane_instance_call(membrane_instance* instance, const char* name,
                                      const membrane_value* arguments, size_t argument_count, uint64_t fuel,
                                      membrane_error** error);
membrane_call_status membrane_call_get_status(const membrane_call* call);
void membrane_call_add_fuel(membrane_call* call, uint64_t fuel);
membrane_call_status membrane_call_resume(membrane_call* call);
size_t membrane_call_result_count(const membrane_call* call);
bool membrane_call_result(const membrane_call* call, size_t index, membrane_value* value);
/* Why it trapped, or where it paused; NULL when it returned. Valid until the next function with this call. */
const membrane_error* membrane_call_error(membrane_call* call);
uint64_t membrane_call_fuel_used(const membrane_call* call); /* since it began, also before it was loaded */

/* Resumes a waiting call with what the function would have returned: values, or an error, which traps, when
 * `error_message` is not NULL. False, with the call unchanged, when it waits for nothing or the values do not have the
 * function's result types. */
bool membrane_call_answer(membrane_call* call, const membrane_value* results, size_t result_count,
                          const char* error_message, membrane_error** error);
/* The same, but calls a function to get the answer. The call still waits if that function could not charge its fuel. */
bool membrane_call_answer_with(membrane_call* call, membrane_callback answer, void* user_data,
                               membrane_error** error);
/* What the call waits for; NULL when it does not wait. Valid until the next function with this call. */
const membrane_waiting_call* membrane_call_waiting(membrane_call* call);
/* The instance and this call, paused or waiting, as bytes; they include the module. Free them with membrane_bytes_free. */
uint8_t* membrane_call_dump(const membrane_call* call, size_t* size, membrane_error** error);
/* Restores a call from such bytes, in an instance of its own, with this much fuel; it is waiting or paused, as it was.
 * `options` may be NULL. */
membrane_call* membrane_call_load(const uint8_t* bytes, size_t size, const membrane_instance_options* options,
                                  uint64_t fuel, membrane_error** error);
/* Its instance, to be freed like any other. */
membrane_instance* membrane_call_get_instance(const membrane_call* call);
void membrane_call_free(membrane_call* call);

#ifdef __cplusplus
}
#endif

#endif
