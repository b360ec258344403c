import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { foldersWithoutPackages, planSystemPackages, root } from './bootstrap.mjs';
import { commands } from './dev.mjs';

const machine = ({ commands, oneDnn, root }) => ({
  hasCommand: (command) => commands.includes(command),
  hasOneDnn: () => oneDnn,
  isRoot: () => root,
});
const everything = ['c++', 'cmake', 'apt-get'];

describe('system packages', () => {
  it('are left alone where nothing is missing, root or not', () => {
    for (const root of [true, false]) {
      const plan = planSystemPackages(machine({ commands: everything, oneDnn: true, root }));
      expect(plan).toEqual({ action: 'none', missing: [] });
    }
  });

  it('are installed by root where there is apt-get', () => {
    const plan = planSystemPackages(machine({ commands: ['apt-get'], oneDnn: false, root: true }));
    expect(plan).toEqual({ action: 'install', missing: ['g++', 'cmake', 'libdnnl-dev'] });
  });

  it.each([
    ['without root', { commands: everything, oneDnn: false, root: false }],
    ['as root of a system without apt-get', { commands: ['c++', 'cmake'], oneDnn: false, root: true }],
  ])('%s, are named with the one command', (_, facts) => {
    expect(planSystemPackages(machine(facts))).toEqual({
      action: 'fail',
      missing: ['libdnnl-dev'],
      message: 'missing: libdnnl-dev',
      remedy: 'sudo apt-get install -y libdnnl-dev',
    });
  });
});

describe('installed packages', () => {
  it('are missing where a folder has lost its node_modules', () => {
    const folder = testFolder('installed');
    try {
      for (const path of ['packages/a', 'packages/b', 'apps/c']) folder.write(`${path}/package.json`, '{}');
      for (const path of ['packages/a', 'apps/c']) mkdirSync(join(folder.path, path, 'node_modules'));
      folder.write('packages/left/build.log', 'what remains of a package that is gone');
      expect(foldersWithoutPackages(folder.path)).toEqual([join(folder.path, 'packages/b')]);
      expect(foldersWithoutPackages(root)).toEqual([]);
    } finally {
      folder.remove();
    }
  });
});

describe('the commands of package.json', () => {
  /**
   * Returns the modules that a script imports, directly or indirectly, and that are neither part of Node.js
   * nor in the repository.
   */
  function listImports(path, seen = new Set()) {
    if (seen.has(path)) return [];
    seen.add(path);
    const names = [...readFileSync(path, 'utf8').matchAll(/(?:from|^import|import\() ?'([^']+)'/gm)];
    return names.flatMap(([, name]) => {
      if (name.startsWith('.')) return listImports(join(dirname(path), name), seen);
      return name.startsWith('node:') ? [] : [name];
    });
  }
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  // commands for which dev.mjs prepares nothing
  const unprepared = Object.values(commands).filter(({ prepare }) => prepare === undefined);
  const programs = [...Object.values(scripts), ...unprepared.map(({ command }) => command)].flatMap(
    (words) => words.match(/^node (\S+)/)?.[1] ?? [],
  );

  // CI runs one of these programs first, before anything is installed; later programs use what the first
  // program has installed
  it.each([...new Set(programs)])('%s imports nothing that is still to be installed', (program) => {
    expect(listImports(join(root, program))).toEqual([]);
  });

  it('this file does, and that is seen', () => {
    expect(listImports(fileURLToPath(import.meta.url))).toEqual(['vitest']);
  });
});

describe('checks.mjs', () => {
  const script = fileURLToPath(new URL('checks.mjs', import.meta.url));

  it.each([
    ['a name that is no check', ['lint', 'toString'], 'there is no check toString'],
    ['no name', [], 'no check is named'],
  ])('%s: one error with those that there are, status 2', (_, names, what) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...names], { encoding: 'utf8' });
    const expected = 'expected one or more of lint, boundaries, typecheck';
    expect(stderr).toBe(`error[MTL_FLAG_VALUE]: ${what}; ${expected}\n`);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });
});

it('npm run gpt-train builds the command mtl too, which its README goes on with', () => {
  const { path, write, remove } = testFolder('run-app');
  try {
    write('package.json', '{"type": "module"}');
    for (const file of ['run-app.mjs', 'answer-help.mjs'])
      write(`bootstrap/${file}`, readFileSync(new URL(file, import.meta.url), 'utf8'));
    write('processes/run-sources.mjs', 'export const runSources = () => {};\n');
    const report = '(...what) => { console.log(JSON.stringify(what)); process.exit(); }';
    write(
      'bootstrap/bootstrap.mjs',
      `export const root = '/';\nexport const ensurePackages = () => {};\nexport const bootstrap = ${report};\n`,
    );
    const run = spawnSync(process.execPath, [join(path, 'bootstrap/run-app.mjs'), 'gpt-train'], {
      encoding: 'utf8',
    });
    expect(JSON.parse(run.stdout)).toEqual([
      ['build', 'build:native'],
      ['@mtl/gpt-train', '@mtl/cli'],
      { isForThisMachine: true },
    ]);
  } finally {
    remove();
  }
});

describe('test.mjs', () => {
  const script = fileURLToPath(new URL('test.mjs', import.meta.url));

  it.each([
    [['--skips'], "Unknown option '--skips'; npm test -- --help lists the flags"],
    [
      ['--required-engines'],
      "Option '--required-engines <value>' argument missing; npm test -- --help lists the flags",
    ],
    [['--required-engines', '/no/such/file'], '--required-engines /no/such/file names no file'],
  ])('%s: one error before anything is done, status 2', (words, message) => {
    // the process needs a time limit, because a program that began to run tests would start itself again
    const how = { encoding: 'utf8', timeout: 20_000 };
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...words], how);
    expect(stderr).toBe(`error[MTL_FLAG_VALUE]: ${message}\n`);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });
});

describe('the script, started by a user without root', () => {
  let folder;
  let script;

  beforeAll(() => {
    // all users can read this folder, regardless of the checkout's permissions
    folder = testFolder('bootstrap');
    script = join(folder.path, 'tooling', 'bootstrap', 'bootstrap.mjs');
    const files = [
      ...['bootstrap/bootstrap.mjs', 'bootstrap/answer-help.mjs', 'bootstrap/platform-addons.mjs'],
      ...['native/platform-problem.mjs', 'native/source-hash.mjs', 'release/platform-folders.mjs'],
    ];
    for (const file of files) {
      const copy = join(folder.path, 'tooling', file);
      mkdirSync(dirname(copy), { recursive: true });
      copyFileSync(fileURLToPath(new URL(`../${file}`, import.meta.url)), copy);
    }
    chmodSync(folder.path, 0o755);
  });
  afterAll(() => folder.remove());

  /**
   * Writes fake commands, which do nothing and succeed, to the folder where the script searches for its
   * tools.
   */
  function provide(commands) {
    rmSync(join(folder.path, 'tools'), { recursive: true, force: true });
    for (const command of commands) folder.writeProgram(`tools/${command}`, 'exit 0');
  }

  /** Runs the bootstrap as an unprivileged user, in a mount namespace that hides oneDNN's headers. */
  function bootstrapWithoutRights() {
    const hide =
      'for d in /usr/include/oneapi /usr/local/include/oneapi; do [ ! -d $d ] || mount -t tmpfs none $d || exit 99; done';
    const withoutRights = 'exec setpriv --reuid=65534 --regid=65534 --clear-groups';
    const start = `${withoutRights} env -i PATH='${folder.path}/tools' '${process.execPath}' '${script}'`;
    return spawnSync('unshare', ['--mount', 'sh', '-c', `${hide}; ${start}`], { encoding: 'utf8' });
  }

  /**
   * True if this machine allows the test to switch to a different user and to mount over a folder, which
   * needs root.
   */
  const isPossible =
    spawnSync('unshare', [
      '--mount',
      'sh',
      '-c',
      `mount -t tmpfs none /mnt && setpriv --reuid=65534 --regid=65534 --clear-groups '${process.execPath}' --version`,
    ]).status === 0;

  it.each([
    ['oneDNN', ['c++', 'cmake'], 'libdnnl-dev'],
    ['everything', [], 'g++ cmake libdnnl-dev'],
  ])('without %s: one error, one command, status 2', (_, commands, packages, context) => {
    if (!isPossible) context.skip('becoming another user and hiding headers needs root');
    provide([...commands, 'apt-get', 'turbo', 'npx']);
    const run = bootstrapWithoutRights();
    expect(run.stderr).toBe(
      `error[MTL_BOOTSTRAP]: missing: ${packages.replaceAll(' ', ', ')}\n  remedy: sudo apt-get install -y ${packages}\n`,
    );
    expect(run.stdout).toBe('');
    expect(run.status).toBe(2);
  });
});
