import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { moduleClosure } from './module-closure.mjs';
import { packResults } from './pack-results.mjs';
import { runStep } from './run-step.mjs';
import { runSteps } from './run-steps.mjs';
import { neededLibraries, requiredVersions } from './shared-libraries.mjs';
import { skippedTests } from './skipped-tests.mjs';
import { listStages } from './stages.mjs';
import { computeDigests, takeSources } from './take-sources.mjs';
import { testFolders } from './test-folders.mjs';

const { path: root, write, writeProgram, remove } = testFolder('bundle-test');
afterAll(remove);

const link = (from, to) => {
  mkdirSync(dirname(join(root, from)), { recursive: true });
  symlinkSync(relative(dirname(join(root, from)), join(root, to)), join(root, from));
};
/** Writes a package to pnpm's store, with links to its dependencies. */
function store(name, needs = []) {
  write(`node_modules/.pnpm/${name.replace('/', '+')}@1/node_modules/${name}/package.json`, '{}');
  for (const need of needs) {
    const target = `node_modules/.pnpm/${need.replace('/', '+')}@1/node_modules/${need}`;
    link(`node_modules/.pnpm/${name.replace('/', '+')}@1/node_modules/${need}`, target);
  }
}

describe('the modules that a bundle holds', () => {
  beforeAll(() => {
    store('deep');
    store('@scope/inner', ['deep']);
    store('outer', ['@scope/inner']);
    store('runner', ['compiler']);
    store('compiler', ['deep-of-compiler']);
    store('deep-of-compiler');
    store('linter');
    write(
      'packages/one/package.json',
      '{"dependencies":{"outer":"1","@own/two":"1"},"devDependencies":{"linter":"1"}}',
    );
    write('packages/two/package.json', '{}');
    link('packages/one/node_modules/outer', 'node_modules/.pnpm/outer@1/node_modules/outer');
    link('packages/one/node_modules/@own/two', 'packages/two');
    link('packages/one/node_modules/linter', 'node_modules/.pnpm/linter@1/node_modules/linter');
    link('packages/two/node_modules/runner', 'node_modules/.pnpm/runner@1/node_modules/runner');
  });
  const closure = (more) => moduleClosure({ root, workspace: ['packages/one', 'packages/two'], ...more });

  it('are those that dependencies reach, and links to packages of the workspace', () => {
    expect(closure({})).toEqual([
      'node_modules/.pnpm/@scope+inner@1',
      'node_modules/.pnpm/deep@1',
      'node_modules/.pnpm/outer@1',
      'packages/one/node_modules/@own/two',
      'packages/one/node_modules/outer',
    ]);
  });

  it('and those asked for in addition, without what is left out and only that reaches', () => {
    const folders = closure({ alsoNeeded: ['runner'], without: /^compiler$/ });
    expect(folders).toContain('node_modules/.pnpm/runner@1');
    expect(folders.filter((path) => /compiler|linter/.test(path))).toEqual([]);
  });
});

describe('the shared libraries of a program', () => {
  it('are named with their files, the C library not among them', () => {
    const libraries = neededLibraries([process.execPath]);
    const compiler = libraries.filter(({ isCompatibility }) => isCompatibility).map(({ soname }) => soname);
    expect(libraries.every(({ path }) => path.startsWith('/'))).toBe(true);
    expect(libraries.some(({ soname }) => soname.startsWith('libc.so'))).toBe(false);
    for (const soname of compiler) expect(soname).toMatch(/^lib(stdc\+\+|gcc_s)\./);
  });

  it('need a glibc, by the newest version of a symbol', () => {
    const { GLIBC } = requiredVersions([process.execPath]);
    expect(GLIBC).toMatch(/^2\.\d+/);
    // versions are compared by numbers: 2.34 is above 2.5
    expect(Number(GLIBC.split('.')[1])).toBeGreaterThanOrEqual(17);
  });
});

describe('the steps that run on a GPU', () => {
  const options = { root: '/root', out: '/out', benchArguments: ['--presets', 'gpt2-1.3b'] };

  it('is sanitized by all three tools there, and by none under emulation', () => {
    const onGpu = listStages({ ...options, emulation: false, sanitizer: '/cuda/bin/compute-sanitizer' });
    expect(onGpu.sanitizer.map(({ args }) => args[1])).toEqual([
      ...['memcheck', 'memcheck', 'racecheck', 'initcheck'],
    ]);
    expect(onGpu.bench[1].args.slice(-2)).toEqual(['--presets', 'gpt2-1.3b']);
    expect(onGpu.bench[1].args).not.toContain('--dry-run');
    expect(onGpu.sanitizer.some(({ problem }) => problem !== undefined)).toBe(false);
    const without = listStages({ ...options, emulation: false });
    expect(without.sanitizer[0].problem).toContain('compute-sanitizer is not here');
    // the vitest preset makes vitest write its report to this path, where the skipped tests are read
    const reports = onGpu.tests.filter(({ report }) => report !== undefined);
    expect(reports.map(({ env }) => env.MTL_TEST_REPORT)).toEqual(reports.map(({ report }) => report));
    expect(reports).toHaveLength(testFolders.length);
    const emulated = listStages({ ...options, emulation: true });
    // the same programs, without compute-sanitizer
    const programs = emulated.sanitizer.map(({ command, args }) => [command, ...args]);
    expect(programs).toEqual(onGpu.sanitizer.slice(0, 2).map(({ args }) => args.slice(4)));
    expect(emulated.bench[1].args).toContain('--dry-run');
  });

  it('are the tests of every package that has some for a GPU, each with results of its own', () => {
    const checkout = fileURLToPath(new URL('../..', import.meta.url));
    const withTests = ['packages', 'apps']
      .flatMap((group) => readdirSync(join(checkout, group)).map((name) => `${group}/${name}`))
      .filter((folder) => existsSync(join(checkout, folder, 'test/cuda')));
    expect(testFolders.map(({ folder }) => folder).sort()).toEqual(withTests.sort());
    const { tests } = listStages({ ...options, root: checkout, emulation: false });
    const steps = tests.filter(({ args }) => args.includes('test/cuda'));
    expect(steps.map(({ cwd }) => cwd).sort()).toEqual(withTests.map((folder) => join(checkout, folder)));
    expect(new Set(steps.map(({ report }) => report)).size).toBe(withTests.length);
  });
});

describe('a step', () => {
  const log = { write() {} };
  const run = (script, more) =>
    runStep({ command: '/bin/sh', args: ['-c', script], cwd: root, minutes: 1, ...more }, log);

  it('has the status of its program', async () => {
    expect(await run('exit 3')).toBe(3);
    expect(await run('', { command: '/no/such/program' })).toBe(127);
    expect(await run('', { problem: 'not here' })).toBe(127);
  });

  it('ends at its limit, and so do its children, which hold its output', async () => {
    expect(await run('sleep 600 & wait', { minutes: 0.0001 })).toBe('time limit');
  });
});

describe('steps', () => {
  const shell = (name, script, more) => ({
    stage: 'tests',
    name,
    command: '/bin/sh',
    args: ['-c', script],
    cwd: root,
    minutes: 1,
    ...more,
  });
  /** Runs steps. Returns the result of each step, and the output. */
  async function run(steps, minutes = Number.POSITIVE_INFINITY) {
    const [came, said] = [[], []];
    const log = { write: (text) => said.push(String(text)) };
    const keep = ({ name }, result) => came.push({ name, ...result });
    await runSteps({ steps, minutes, logOf: () => log, keep });
    return { came, statuses: came.map(({ status }) => status), said: said.join('') };
  }

  it('run although one before has failed or was ended, each within its share of the time', async () => {
    const hanging = shell('hangs', 'sleep 600 & wait');
    // the further steps take almost no time, but have a large limit because machines may be busy
    const more = { weight: 14 };
    const others = [shell('fails', 'exit 3', more), shell('passes', 'exit 0', more)];
    const { came, statuses } = await run([hanging, ...others], 1);
    expect(statuses).toEqual(['time limit', 3, 0]);
    expect(came[0].seconds).toBeGreaterThan(1.9); // one of 29 parts of a minute
    expect(came[0].seconds).toBeLessThan(60);
  });

  it('share the time by weight, and what is left by the weights of those behind', async () => {
    const limited = (seconds) => [String(seconds)];
    const asks = (weight) => shell('asks', 'echo "limit $0"', { weight, limited, minutes: 1000 });
    const { said } = await run([asks(4), asks(undefined), asks(2)], 70);
    const limits = [...said.matchAll(/limit ([\d.]+)/g)].map(([, seconds]) => Number(seconds));
    // the programs use almost none of this time; an additional minute is for a busy machine
    for (const [index, expected] of [2400, 1400, 4200].entries()) {
      expect(limits[index]).toBeLessThanOrEqual(expected);
      expect(limits[index]).toBeGreaterThan(expected - 60);
    }
  });

  it('do not begin when no time is left', async () => {
    const { statuses, said } = await run([shell('one', 'echo begun')], 0);
    expect(statuses).toEqual(['no time left']);
    expect(said).not.toContain('begun');
  });

  it('are told how long they may take where that matters, and only where there is a limit', async () => {
    const step = shell('asks', 'echo "limit $0"', { limited: (seconds) => [String(Math.round(seconds))] });
    expect((await run([step], 0.5)).said).toContain('limit 30\n');
    expect((await run([step])).said).not.toContain('limit 60');
  });

  it('get the variables of one that failed before them', async () => {
    const guard = (status) => shell('guard', `exit ${status}`, { otherwise: { MTL_WAY: 'around' } });
    const behind = shell('behind', 'echo "way: $MTL_WAY"');
    const failed = await run([guard(1), behind]);
    expect(failed.said).toContain('way: around');
    expect(failed.came[1].otherwise).toEqual({ MTL_WAY: 'around' });
    expect((await run([guard(0), behind])).said).not.toContain('around');
  });
});

describe('packed results', () => {
  it('are one file with all of the folder, which is replaced by the next', () => {
    const file = join(root, 'packed', 'results.tar.gz');
    write('kept/first.log', 'one');
    packResults({ folder: join(root, 'kept'), file });
    write('kept/second.log', 'two');
    packResults({ folder: join(root, 'kept'), file });
    const { stdout } = spawnSync('tar', ['-tzf', file], { encoding: 'utf8' });
    expect(stdout.trim().split('\n').sort()).toEqual(['kept/', 'kept/first.log', 'kept/second.log']);
    expect(readdirSync(join(root, 'packed'))).toEqual(['results.tar.gz']);
  });
});

describe('a checkout and a bundle for it', () => {
  it('travel together: what is tracked leaves room for the bundle', () => {
    const checkout = fileURLToPath(new URL('../..', import.meta.url));
    const { stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: checkout, encoding: 'utf8' });
    const files = stdout.split('\0').filter((file) => existsSync(join(checkout, file)));
    const bytes = files.reduce((sum, file) => sum + lstatSync(join(checkout, file)).size, 0);
    expect(files.length).toBeGreaterThan(1000);
    // 64 MiB together: at most 42 MB for the bundle and 22 MB for the tracked files, with 3 MB to spare
    expect(bytes).toBeLessThan(22e6);
  });

  const bundle = join(root, 'bundle-without-sources');
  it('are put together, and files that have changed since are named', () => {
    write('checkout/a/one.mjs', '1');
    write('checkout/two.mjs', '2');
    const digests = computeDigests(join(root, 'checkout'), ['a/one.mjs', 'two.mjs']);
    write('checkout/two.mjs', '3');
    const taken = takeSources({ checkout: join(root, 'checkout'), bundle, digests });
    expect(taken).toEqual({ missing: [], changed: ['two.mjs'] });
    expect(readFileSync(join(bundle, 'a/one.mjs'), 'utf8')).toBe('1');
    expect(readFileSync(join(bundle, 'two.mjs'), 'utf8')).toBe('3');
  });

  it('are refused where the checkout lacks files', () => {
    const digests = { 'two.mjs': '', 'no-such-file.mjs': '' };
    const other = join(root, 'other-bundle');
    const taken = takeSources({ checkout: join(root, 'checkout'), bundle: other, digests });
    expect(taken).toEqual({ missing: ['no-such-file.mjs'], changed: [] });
    expect(existsSync(other)).toBe(false);
    write('alone/sources.json', JSON.stringify(digests));
    copyFileSync(
      fileURLToPath(new URL('take-sources.mjs', import.meta.url)),
      join(root, 'alone/take-sources.mjs'),
    );
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'alone/take-sources.mjs')], {
      encoding: 'utf8',
    });
    expect(status).toBe(2);
    expect(stderr).toContain('error[MTL_BUNDLE]');
    expect(stderr).toContain('remedy: unpack the bundle in the root of that checkout');
  });
});

describe('tests that were skipped', () => {
  it('are those that neither passed nor failed, by their full names', () => {
    const test = (fullName, status) => ({ fullName, status });
    const all = [test('a one', 'passed'), test('a two', 'skipped'), test('a three', 'failed')];
    const assertionResults = [...all, test('a four', 'pending')];
    write('report.json', JSON.stringify({ testResults: [{ assertionResults }] }));
    expect(skippedTests(join(root, 'report.json'))).toEqual(['a two', 'a four']);
    expect(skippedTests(join(root, 'none.json'))).toEqual([]);
  });
});

describe('run-on-gpu.mjs', () => {
  it('fails at once where there is no GPU, and records why', () => {
    const script = fileURLToPath(new URL('run-on-gpu.mjs', import.meta.url));
    const out = join(root, 'results');
    const env = { ...process.env, MTL_CUDA_LIBRARY: join(root, 'no-such-library.so') };
    const { status, stderr, stdout } = spawnSync(process.execPath, [script, 'tests', '--out', out], {
      encoding: 'utf8',
      env,
    });
    expect(status).toBe(1);
    expect(stderr).toContain('device cuda cannot be opened');
    expect(stdout).not.toContain('== tests');
    const { card: gpu, steps } = JSON.parse(readFileSync(join(out, 'results-tests.json'), 'utf8'));
    // the message names the missing component and the remedy, but has no stack
    expect(gpu.error).toMatch(/^error\[MTL_\w+\]: .*\n {2}remedy: .*$/);
    expect(steps).toEqual([]);
  });
});

describe('flags of run-on-gpu.mjs', () => {
  const script = fileURLToPath(new URL('run-on-gpu.mjs', import.meta.url));
  const run = (...flags) =>
    spawnSync(process.execPath, [script, 'tests', '--out', join(root, 'refused'), ...flags], {
      encoding: 'utf8',
    });

  it.each([
    [['--minutes', '0'], '--minutes 0 is no number above 0'],
    [['--minutes', 'soon'], '--minutes soon is no number above 0'],
    [['--pack', join(root, 'refused', 'all.tar.gz')], 'is in the folder that it packs'],
    [['--peer', 'no-such-peer.py'], '--peer no-such-peer.py is not there'],
  ])('%j is refused before anything is written', (flags, message) => {
    const { status, stderr } = run(...flags);
    expect(status).toBe(2);
    expect(stderr).toContain(message);
    expect(existsSync(join(root, 'refused'))).toBe(false);
  });
});

describe('run-on-gpu.sh', () => {
  const script = fileURLToPath(new URL('run-on-gpu.sh', import.meta.url));

  /** Makes a bundle in which node is replaced by the given shell script. */
  function bundleWith(node) {
    copyFileSync(script, join(root, 'run-on-gpu.sh'));
    write('bundle.json', '{\n "commit": "0123abcd",\n "cuda": true\n}\n');
    writeProgram('bin/node', node);
    return spawnSync('/bin/sh', [join(root, 'run-on-gpu.sh'), 'tests', '--only', 'a b'], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: '/theirs' },
    });
  }
  const ask = '[ "$1" = -e ] && exit 0;';

  it('hands its arguments on, with its libraries first and the machine’s for others', () => {
    const { stdout, status } = bundleWith(
      `${ask} echo "$2|$4|$MTL_BUNDLE_COMMIT|$MTL_HOST_LIBRARY_PATH|$LD_LIBRARY_PATH"; exit 3`,
    );
    expect(stdout.trim()).toBe(`tests|a b|0123abcd|/theirs|${root}/lib:/theirs`);
    expect(status).toBe(3);
  });

  it('takes its own libstdc++ where the machine’s is too old', () => {
    const onlyCompatible = `case "$LD_LIBRARY_PATH" in *compat*) ;; *) exit 1;; esac; ${ask}`;
    const { stdout } = bundleWith(`${onlyCompatible} echo "$LD_LIBRARY_PATH"`);
    expect(stdout.trim()).toBe(`${root}/lib/compat:${root}/lib:/theirs`);
  });

  it('reports what is wrong where the addon cannot be loaded', () => {
    const { stderr, status } = bundleWith('echo "GLIBC_2.34 not found" >&2; exit 1');
    expect(stderr).toContain('GLIBC_2.34 not found');
    expect(stderr).toContain('error[MTL_BUNDLE]');
    expect(status).toBe(2);
  });
});
