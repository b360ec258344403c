import { afterAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { testOutcomes } from './test-outcomes.mjs';

const { path: root, write, remove } = testFolder('outcomes');
afterAll(remove);

const result = (status, fullName, tags) => ({ status, fullName, tags });
const makeReport = (...testResults) => JSON.stringify({ testResults });

it('tells passed, failed, skipped and left tests apart, and forgets them', () => {
  write('apps/x/package.json', '{}');
  const [sums, broken, hooked] = ['sums.test.ts', 'broken.test.ts', 'hooked.test.ts'].map(
    (name) => `${root}/packages/a/test/${name}`,
  );
  write(
    'packages/a/build/test-results.json',
    makeReport(
      {
        name: sums,
        status: 'failed',
        assertionResults: [
          result('passed', 'adds', []),
          result('passed', 'adds twice', []),
          {
            ...result('failed', 'subtracts', []),
            failureMessages: ['Error: \u001b[31m2 is not 3\u001b[39m\n    at a'],
          },
          result('skipped', 'on a GPU', []),
          result('skipped', 'eight ranks', ['whole']),
          result('passed', 'two ranks', ['whole']),
        ],
      },
      { name: broken, status: 'failed', assertionResults: [] },
      {
        name: hooked,
        status: 'failed',
        message: 'Hook timed out in 9 ms.\nIf this',
        assertionResults: [result('skipped', 'waits', [])],
      },
    ),
  );
  write('packages/a/build/skipped.txt', 'native: no GPU\nnative: no GPU\n');
  write('tooling/build/failed.txt', 'native ended with SIGSEGV\n');
  write('packages/a/build/engines-used.txt', 'local\nlocal\n');
  write('packages/a/build/instruction-sets.txt', 'plain\navx2\n');
  const { read, clear } = testOutcomes(root);
  expect(read()).toEqual({
    numPassed: 3,
    failed: [
      'packages/a/test/sums.test.ts: subtracts\n    Error: 2 is not 3',
      'packages/a/test/broken.test.ts',
      'packages/a/test/hooked.test.ts\n    Hook timed out in 9 ms.',
      'tooling: native ended with SIGSEGV',
    ],
    skipped: ['packages/a/test/sums.test.ts: on a GPU', 'packages/a: native: no GPU'],
    left: ['packages/a/test/sums.test.ts: eight ranks'],
    engines: { 'apps/x': [], 'packages/a': ['local', 'local'], tooling: [] },
    instructionSets: ['plain', 'avx2'],
  });
  clear();
  expect(read()).toMatchObject({ numPassed: 0, failed: [], skipped: [], left: [] });
});
