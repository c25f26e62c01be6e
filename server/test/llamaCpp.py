"""llama.cpp's own server on one GGUF file: `python llamaCpp.py FILE PORT`. Prints a line when it serves; ends with its input."""

import sys

import xllamacpp

file, port = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path = file
settings.hostnames = ["127.0.0.1"]
settings.port = int(port)
# It makes embeddings beside chat, and tells its own counts at /metrics.
settings.embedding = True
settings.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
settings.endpoint_metrics = True
# Room for long prompts and answers in each of as many slots as callers need.
settings.n_parallel = 8
settings.n_ctx = 8 * 512
settings.fit_params = False
# llama.cpp's threads wait by spinning: more of them starve the gateway and its database on a small machine.
settings.cpuparams.n_threads = 1
settings.cpuparams_batch.n_threads = 1
settings.warmup = False
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
