import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * The suites that `npm test` leaves to `npm test -- --all`, and so to CI: by package, each with the seconds
 * it takes on two cores. The fast suites of the same packages cover the same code with fewer layouts, models
 * and processes.
 */
export const slowSuites = {
  'apps/gpt-train': {
    'test/failing-processes.test.ts': 78,
    'test/many-processes.test.ts': 56,
  },
  'packages/cli': {
    'test/calibrate.test.ts': 12,
    'test/eval-tasks.test.ts': 26,
    'test/model.test.ts': 97,
    'test/run/launchers.test.ts': 17,
    'test/run/two-hosts.test.ts': 45,
  },
  'packages/optimizer': {
    'test/muon.test.ts': 35,
  },
  'packages/recipes': {
    'test/bert-layouts.test.ts': 56,
    'test/bytes-on-the-wire.test.ts': 75,
    'test/checkpoints-of-eight-ranks.test.ts': 40,
    'test/fine-tuning-layouts.test.ts': 84,
    'test/fine-tuning-recomputation.test.ts': 18,
    'test/huggingface-llama.test.ts': 20,
    'test/llama.test.ts': 32,
    'test/many-processes.test.ts': 109,
    'test/memory-of-checkpoints.test.ts': 24,
    'test/memory-of-ranks.test.ts': 116,
    'test/memory-of-stages.test.ts': 45,
    'test/muon.test.ts': 65,
    'test/overflow-in-one-stage.test.ts': 21,
    'test/pipelines.test.ts': 105,
  },
  tooling: {
    'checks/gates.test.mjs': 35,
    'fuzz/fuzz.test.mjs': 13,
    'guides/guides.test.mjs': 62,
    'packaging/packed-packages.test.mjs': 110,
  },
};

/** The slow suites of the package in `folder` where `npm test` runs without --all; otherwise none. */
export function suitesLeftOut(folder = process.cwd()) {
  return process.env.MTL_TEST_SUITES === 'fast' ? Object.keys(slowSuites[relative(root, folder)] ?? {}) : [];
}

/** What `npm test` prints of the suites it left out. */
export function textOfSuitesLeft() {
  const files = Object.entries(slowSuites).flatMap(([folder, suites]) =>
    Object.keys(suites).map((file) => `${folder}/${file}`),
  );
  const native = ['packages/comm', 'packages/kernels'].map(
    (folder) => `${folder}: native tests under sanitizers`,
  );
  const lines = [...files, ...native];
  return [`${lines.length} suites are left to npm test -- --all:`, ...lines].join('\n  ');
}
