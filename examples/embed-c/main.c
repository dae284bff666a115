/* A thermostat runs a rule that a model wrote. It may read the sensor, and it may not run forever. */
#include <membrane/membrane.h>

#include <inttypes.h>
#include <stdio.h>

/* The model's rule waits for 20 degrees; each look at the sensor is one host call. */
static const char* const rule =
    "(import \"sensor\" \"celsius\" (func $celsius (result f64)))\n"
    "(func (export \"run\") (result i32)\n"
    "  (local $looks i32)\n"
    "  (loop $again\n"
    "    (local.set $looks (i32.add (local.get $looks) (i32.const 1)))\n"
    "    (br_if $again (f64.lt (call $celsius) (f64.const 20))))\n"
    "  (local.get $looks))\n";

static bool celsius(void* user_data, membrane_host_call* call, const membrane_value* arguments,
                    membrane_value* results) {
  double* now = user_data;
  (void)call, (void)arguments;
  results[0].of.f64 = *now += 0.5;
  return true;
}

int main(void) {
  double now = 17.0;
  membrane_error* error = NULL;
  membrane_policy* policy = membrane_policy_new(); /* grants nothing: no network, no files */
  membrane_policy_limit(policy, "fuel", "10000", &error);
  membrane_sandbox* sandbox = membrane_sandbox_new(policy);

  const membrane_type result[] = {MEMBRANE_F64};
  const membrane_host_function sensor = {.module = "sensor",
                                         .name = "celsius",
                                         .results = result,
                                         .result_count = 1,
                                         .call = celsius,
                                         .user_data = &now};
  if (error == NULL) membrane_sandbox_define(sandbox, &sensor, &error);
  if (error != NULL) return fprintf(stderr, "%s\n", membrane_error_message(error)), 1;

  const membrane_program program = {.source = rule};
  membrane_report* report = membrane_sandbox_run(sandbox, &program);
  membrane_value looks;
  const bool ok = membrane_report_value(report, 0, &looks);
  if (ok) printf("looks: %" PRId32 ", fuel: %" PRIu64 "\n", looks.of.i32, membrane_report_fuel_used(report));
  else fputs(membrane_report_text(report), stderr);

  membrane_report_free(report);
  membrane_sandbox_free(sandbox);
  membrane_policy_free(policy);
  return ok ? 0 : 1;
}
