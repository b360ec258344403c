import { join } from 'node:path';
import { sanitizedPrograms } from './sanitized-programs.mjs';
import { testFolders } from './test-folders.mjs';

/**
 * Returns the steps of each stage of run-on-gpu.mjs. A step has a name, a program, arguments, a working
 * directory and a time limit in minutes, which is several times the expected time. `report`: the report that
 * vitest writes. `weight`: see run-steps.mjs. `isInformation`: true if a failure does not fail the run.
 * `sanitizer`: the program compute-sanitizer; if it is missing and there is no emulation, the steps of the
 * sanitizer stage have a `problem` instead. `guards`: steps before the stages that compute; if such a step
 * fails or hangs, later steps get the variables in its `otherwise`. `limited`: returns arguments that make a
 * step end within the given seconds.
 */
export function listStages({ root, out, emulation, only, sanitizer, benchArguments }) {
  const kernels = join(root, 'packages/kernels');
  const nativeTests = join(kernels, 'build/Release/kernels_native_tests');
  const programs = sanitizedPrograms({ kernels, nativeTests });
  return {
    guards: guardSteps({ kernels, nativeTests }),
    tests: testSteps({ root, out, only, kernels, nativeTests, programs }),
    // the sanitizers check the machine code of a GPU; under emulation, the same programs run without
    // sanitizers
    sanitizer: emulation
      ? programs.map(({ name, command, args }) => ({
          name: `${name}, without a sanitizer`,
          command,
          args,
          cwd: kernels,
          minutes: 30,
        }))
      : sanitizerSteps({ kernels, programs, sanitizer }),
    kernels: [
      {
        name: 'kernels against cuBLAS, copies and PyTorch',
        command: process.execPath,
        cwd: kernels,
        minutes: 60,
        env,
        args: [
          join(root, 'tooling/measure/kernels/cuda/bench-kernels.mjs'),
          '--out',
          out,
          ...(emulation ? ['--dry-run'] : []),
        ],
        // the program gets a little less than the step's limit, so that it can still write its table
        limited: (seconds) => ['--seconds', String(Math.ceil(0.95 * seconds))],
      },
    ],
    bench: benchSteps({ root, out, emulation, benchArguments }),
  };
}

// the epilogues that cuBLASLt supports on this GPU are written to the logs
const env = { MTL_CUBLASLT_REPORT: '1' };

/**
 * Returns the steps that check kernels for this GPU's architecture, because a bug in such a kernel may cause
 * an endless wait.
 */
function guardSteps({ kernels, nativeTests }) {
  return [
    {
      name: 'attention on Hopper',
      command: nativeTests,
      args: ['cuda_kernels_of_wide_heads'],
      cwd: kernels,
      minutes: 5,
      env,
      otherwise: { MTL_CUDA_ATTENTION: 'mma.sync' },
    },
  ];
}

function testSteps({ root, out, only, kernels, nativeTests, programs }) {
  return [
    {
      name: 'what is here',
      command: process.execPath,
      cwd: root,
      isInformation: true,
      minutes: 5,
      weight: 0.5,
      args: [join(root, 'packages/cli/bin/mtl.mjs'), 'doctor'],
    },
    {
      name: 'native tests',
      command: nativeTests,
      args: programs[0].args,
      // this includes the time on the GPU, and the time of the reference, which computes with plain loops
      cwd: kernels,
      minutes: 30,
      env,
      weight: 3,
    },
    ...testFolders.map(({ step, report, weight, folder }) => ({
      name: step,
      weight,
      command: process.execPath,
      args: [
        join(root, folder, 'node_modules/vitest/vitest.mjs'),
        ...['run', 'test/cuda'],
        '--reporter=verbose', // the log then shows the test during which a run hangs
        '--reporter=json',
        ...(only === undefined ? [] : ['-t', only]),
      ],
      cwd: join(root, folder),
      minutes: 60,
      report: join(out, report),
      env: { ...env, MTL_TEST_REPORT: join(out, report) },
    })),
  ];
}

/**
 * Returns the steps of the sanitizers, ordered by tool, so that an interrupted run has applied the most
 * useful tool to all programs.
 */
function sanitizerSteps({ kernels, programs, sanitizer }) {
  const problem =
    sanitizer === undefined
      ? { problem: 'compute-sanitizer is not here: neither on PATH nor in CUDA_HOME or /usr/local/cuda*' }
      : {};
  const allTools = new Set(programs.flatMap(({ tools }) => tools));
  return [...allTools].flatMap((tool) =>
    programs
      .filter(({ tools }) => tools.includes(tool))
      .map(({ name, command, args, minutes }) => ({
        name: `${tool}: ${name}`,
        command: sanitizer,
        ...problem,
        args: ['--tool', tool, '--error-exitcode', '1', command, ...args],
        cwd: kernels,
        minutes,
      })),
  );
}

function benchSteps({ root, out, emulation, benchArguments }) {
  const node = process.execPath;
  return [
    {
      name: 'rates of the GPU, with which steps are predicted',
      command: node,
      args: [
        join(root, 'packages/cli/bin/mtl.mjs'),
        ...['calibrate', '--device', 'cuda', '--output', join(out, 'profile.json')],
      ],
      cwd: root,
      minutes: 10,
      weight: 0.3,
    },
    {
      name: 'training step against PyTorch',
      command: node,
      cwd: join(root, 'apps/gpt-train'),
      minutes: 180,
      args: [
        join(root, 'tooling/measure/gpt-train/cuda/bench-cuda.mjs'),
        ...['--out', out, '--profile', join(out, 'profile.json')],
        ...(emulation ? ['--dry-run'] : []),
        ...benchArguments,
      ],
      // a measurement that hangs uses only a part of the step's time
      limited: (seconds) =>
        benchArguments.includes('--seconds') ? [] : ['--seconds', String(Math.ceil(seconds / 3))],
    },
  ];
}
