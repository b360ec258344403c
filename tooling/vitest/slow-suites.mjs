import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * The suites that `npm test` runs only with --all, by package, with the seconds that each takes on two cores.
 * The fast suites in the same packages cover the same code with fewer layouts, models and processes. To leave
 * out a single test in a fast suite, use the tag `whole`.
 */
export const slowSuites = {
  'apps/gpt-train': {
    'test/failing-processes.test.ts': 63,
    'test/many-processes.test.ts': 45,
  },
  'packages/dashboard': {
    'test/page-layout.test.ts': 19,
    'test/page-view.test.ts': 18,
  },
  'packages/cli': {
    'test/calibrate.test.ts': 18,
    'test/convert-onnx.test.ts': 50,
    'test/eval-tasks.test.ts': 22,
    'test/gguf-of-runs.test.ts': 30,
    'test/model.test.ts': 82,
    'test/run/launchers.test.ts': 16,
    'test/run/own-blocks.test.ts': 14,
    'test/run/two-hosts.test.ts': 34,
    'test/page-access.test.ts': 20,
    'test/transformers-js.test.ts': 40,
  },
  'packages/bert-tasks': {
    'test/fine-tuning-layouts.test.ts': 46,
    'test/fine-tuning-recomputation.test.ts': 12,
  },
  'packages/planning': {
    'test/memory-of-ranks.test.ts': 25,
  },
  'packages/formats': {
    'test/gguf/llama-cpp.test.ts': 60,
    'test/onnx/bert.test.ts': 10,
    'test/onnx/transformers-js.test.ts': 90,
  },
  'packages/runs': {
    'src/training/healthy-runs.test.ts': 11,
    'test/bert-layouts.test.ts': 32,
    'test/bytes-on-the-wire.test.ts': 41,
    'test/checkpoints-of-eight-ranks.test.ts': 20,
    'test/decoupled-rate.test.ts': 22,
    'test/experts-of-checkpoints.test.ts': 35,
    'test/gguf-tokens.test.ts': 20,
    'test/huggingface-llama.test.ts': 15,
    'test/llama.test.ts': 9,
    'test/many-processes.test.ts': 39,
    'test/masks-in-transformers-js.test.ts': 12,
    'test/memory-of-checkpoints.test.ts': 14,
    'test/memory-of-stages.test.ts': 31,
    'test/muon.test.ts': 19,
    'test/overflow-on-one-rank.test.ts': 10,
    'test/pipelines.test.ts': 51,
    'test/slow-rank.test.ts': 9,
    'test/spikes.test.ts': 20,
  },
  tooling: {
    'checks/gates.test.mjs': 16,
    'fuzz/fuzz.test.mjs': 13,
    'guides/guides.test.mjs': 60,
    'native/cuda-resources.test.mjs': 12,
    'packaging/packed-command.test.mjs': 20,
    'packaging/packed-packages.test.mjs': 136,
    'packaging/changeset.test.mjs': 7,
  },
};

/** Returns the seconds that `suite` takes, a path in the package in `folder`; 0 if it is not a slow suite. */
export function findSeconds(suite, folder = process.cwd()) {
  return slowSuites[relative(root, folder)]?.[suite] ?? 0;
}

/**
 * Returns the suites that are left out in the package in `folder`: its slow suites in `npm test` without
 * --all, otherwise none.
 */
export function suitesLeftOut(folder = process.cwd()) {
  return process.env.MTL_TEST_SUITES === 'fast' ? Object.keys(slowSuites[relative(root, folder)] ?? {}) : [];
}

/** Returns the number of suites that `npm test` without --all leaves out. */
export const numSuitesLeft = () =>
  Object.values(slowSuites).reduce((sum, suites) => sum + Object.keys(suites).length, 0);
