/**
 * The tests that run once more with the platform packages of arm64, in Node.js under qemu: a folder, its test
 * files, and for some the names of tests, as a regular expression. test:bare compares golden losses.
 * Processes under qemu are ten to thirty times slower, so a kind of test has only the files that cover most
 * of it.
 *
 * @type {readonly { folder: string, files: string[], names?: string }[]}
 */
export const tests = [
  // every operation against the reference and PyTorch
  {
    folder: 'packages/kernels',
    files: ['test/op-cases.test.ts', 'test/pytorch-parity.test.ts', 'test/philox.test.ts'],
  },
  // gradients
  { folder: 'packages/autograd', files: ['src/operations', 'src/tape.test.ts'] },
  // ranks as processes: they join, one fails, also over Gloo, one dies; groups overlap, with messages
  {
    folder: 'packages/comm',
    files: ['test/join-world.test.ts', 'test/local-groups.test.ts', 'test/gloo-failures.test.ts'],
    names:
      'only know their ranks|the reason of the one that fails|when rank 1 exits|overlap|with its own words',
  },
];

/** Programs that train on two ranks, and compare losses, gradient norms and gradients with one process. */
export const programs = [
  ['packages/runs/parity/parity.mjs', '--only', 'dp 2, distributed optimizer, full', '--steps', '12'],
];
