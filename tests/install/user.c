/* A C program against the installed library: forward, backward, and two mistakes. */
#include <rapt/c.h>

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s; last error: '%s'\n", what, rapt_last_error());
  ++failures;
}

static void expect_near(double got, double expected, const char* what) {
  const double difference = got > expected ? got - expected : expected - got;
  if (difference <= 1e-5) return;
  fprintf(stderr, "%s: got %g, expected %g\n", what, got, expected);
  ++failures;
}

int main(void) {
  /* One query, two keys, one dimension: the scores are 2 and 0, the weights p = e^2/(e^2+1) and 1 - p. */
  const double p = 0.8807970779778823;
  const float q[1] = {2}, k[2] = {1, 0}, v[2] = {10, 20}, one[1] = {1};
  float out[1] = {0}, lse[1] = {0}, weights[2] = {0, 0}, dq[1] = {0}, dk[2] = {0, 0}, dv[2] = {0, 0};
  const rapt_array q_array = rapt_bhsd(q, RAPT_F32, 1, 1, 1, 1);
  const rapt_array k_array = rapt_bhsd(k, RAPT_F32, 1, 1, 2, 1);
  const rapt_array v_array = rapt_bhsd(v, RAPT_F32, 1, 1, 2, 1);
  const rapt_array out_array = rapt_bhsd(out, RAPT_F32, 1, 1, 1, 1);
  const rapt_array grad_out = rapt_bhsd(one, RAPT_F32, 1, 1, 1, 1);
  const rapt_array dv_array = rapt_bhsd(dv, RAPT_F32, 1, 1, 2, 1);
  const double expected = 10 * p + 20 * (1 - p);

  /* The plain call. */
  expect(rapt_attend(&q_array, &k_array, &v_array, &out_array, NULL) == RAPT_OK, "rapt_attend failed");
  expect_near(out[0], expected, "out");

  /* All of it: two more outputs, and what the backward pass wants. */
  rapt_options options;
  rapt_inputs inputs = {sizeof inputs, q_array, k_array, &v_array, 1};
  rapt_outputs outputs;
  rapt_gradients gradients;
  rapt_weights_request rows = {0, 0, 0, 1, rapt_bhsd(weights, RAPT_F32, 1, 1, 1, 2)};
  rapt_saved* saved = rapt_saved_create();
  expect(saved != NULL, "rapt_saved_create failed");
  rapt_options_init(&options, sizeof options);
  options.score = "scaled_dot";
  options.threads = 1;
  rapt_outputs_init(&outputs, sizeof outputs);
  outputs.out = &out_array;
  outputs.out_count = 1;
  outputs.lse = rapt_bhsd(lse, RAPT_F32, 1, 1, 1, 1);
  outputs.weights = &rows;
  outputs.weights_count = 1;
  outputs.saved = saved;
  expect(rapt_attend_forward(&inputs, &outputs, &options) == RAPT_OK, "rapt_attend_forward failed");
  expect_near(out[0], expected, "out");
  expect_near(lse[0], 2.1269280110429727, "lse");
  expect_near(weights[0], p, "weights[0]");
  expect_near(weights[1], 1 - p, "weights[1]");

  /* A score's gradient is weight (value - out). */
  rapt_gradients_init(&gradients, sizeof gradients);
  gradients.q = rapt_bhsd(dq, RAPT_F32, 1, 1, 1, 1);
  gradients.k = rapt_bhsd(dk, RAPT_F32, 1, 1, 2, 1);
  gradients.v = &dv_array;
  gradients.v_count = 1;
  expect(rapt_attend_backward(&inputs, &out_array, &grad_out, saved, &gradients, &options) == RAPT_OK,
         "backward failed");
  expect_near(dq[0], p * (10 - expected), "dq");
  expect_near(dk[0], 2 * p * (10 - expected), "dk[0]");
  expect_near(dk[1], 2 * (1 - p) * (20 - expected), "dk[1]");
  expect_near(dv[0], p, "dv[0]");
  expect_near(dv[1], 1 - p, "dv[1]");
  rapt_saved_free(saved);

  /* Mistakes say what is wrong. */
  inputs.k = rapt_bhsd(k, RAPT_F32, 1, 1, 1, 2);
  expect(rapt_attend_forward(&inputs, &outputs, &options) == RAPT_BAD_INPUT, "a wrong shape was taken");
  expect(strstr(rapt_last_error(), "v: expected 1 key as in k, got 2") != NULL, "the error does not say what is wrong");
  printf("as expected: %s\n", rapt_last_error());
  inputs.k = k_array;
  options.score = "no_such_mechanism";
  expect(rapt_attend_forward(&inputs, &outputs, &options) == RAPT_BAD_INPUT, "an unknown name was taken");
  expect(strstr(rapt_last_error(), "no_such_mechanism") != NULL, "the error does not name the mechanism");

  expect(strcmp(rapt_version(), RAPT_EXPECTED_VERSION) == 0, "rapt_version() is not the package's version");
  expect(rapt_mechanism_count() > 0 && strcmp(rapt_mechanism_name(0), "dot") == 0, "the first mechanism is not dot");
  /* What a mechanism takes. */
  size_t additive = 0;
  expect(rapt_mechanism_find("additive", &additive) == RAPT_OK, "additive is not found");
  expect(rapt_mechanism_parameter_count(additive) == 3 && rapt_mechanism_parameter(additive, 3) == NULL,
         "additive does not take three parameters");
  expect(strcmp(rapt_mechanism_parameter(additive, 0)->shape, "[H?,A]") == 0,
         "the shape of additive's w is not [H?,A]");
  expect(rapt_isa()[0] != '\0', "there is no SIMD target");
  return failures == 0 ? 0 : 1;
}
