/* Small models that the pipeline tests cut up. Parameters named s0_w, s1_w, ... say the stage. */
#include "support/pipe_models.h"

const char pipe_model_gpt[] =
    "model gpt\nsize V = 13, T = 4, C = 8, H = 2\n"
    "input tokens : int[B, T] < V\ninput targets : int[B, T] < V\n"
    "param wte[V, C] ~ normal(0.5)\nparam wpe[T, C] ~ normal(0.5)\n"
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nparam b[n] ~ normal(0.1)\n"
    "return matmul(x, w, b, tb = 1)\n}\n"
    "x = dropout(embed(wte, tokens) + wpe, 0.1)\n"
    "repeat i in 0..4 as h {\n"
    "x = x + linear(gelu(linear(x, 2 * C) as up), C) as down\n}\n"
    "loss cross_entropy(matmul(x, wte, tb = 1), targets)\n";

const char pipe_model_image[] =
    "model image\nsize N = 4\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\ne = mix(d) as m5\n"
    "param wl[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label)\n";

/*  s0 - s1 - s3      s0 also goes to s3 directly, s2 has an input of its own:
 *    \______/ |      heights 2 1 1 0
 *        s2 -/                                                                            */
const char pipe_model_branches[] =
    "model branches\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[5, 5] ~ normal(0.4)\nparam s3_w[4, 18] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = dropout(relu(matmul(y, s2_w, tb = 1)), 0.2)\n"
    "loss cross_entropy(matmul(concat([a, b, c], axis = 1), s3_w, tb = 1), label)\n";

/*  s0 - s1 - s2 \
 *    \_ s3 ------ s4     s3 carries a loss of its own: heights 3 2 1 1 0                   */
const char pipe_model_diamond[] =
    "model diamond\ninput x : float[B, 6]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[6, 6] ~ normal(0.4)\nparam s3_w[4, 7] ~ normal(0.4)\n"
    "param s4_w[4, 10] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = relu(matmul(b, s2_w, tb = 1))\nd = matmul(a, s3_w, tb = 1)\n"
    "loss cross_entropy(d, label) weight 0.3\n"
    "loss cross_entropy(matmul(concat([c, d], axis = 1), s4_w, tb = 1), label) weight 0.7\n";

/*  s0 \
 *  s1 - s2 - s3     s2 has no parameters: heights 2 2 1 0                                */
const char pipe_model_bare[] =
    "model bare\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 5] ~ normal(0.4)\n"
    "param s3_w[4, 13] ~ normal(0.4)\n"
    "j = concat([matmul(x, s0_w, tb = 1), matmul(y, s1_w, tb = 1)], axis = 1)\n"
    "loss cross_entropy(matmul(dropout(j, 0.2), s3_w, tb = 1), label)\n";
